// Columns of a CSV file, found by name.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace lynx {

class CsvColumns {
 public:
  static Result<CsvColumns> find(std::string_view header, std::initializer_list<std::string_view> names);

  // The fields of a row in the order of `names`. A row with another number of columns than the header is an
  // error.
  Result<std::vector<std::string>> pick(std::string_view row) const;

 private:
  std::size_t columns_ = 0;
  std::vector<std::size_t> places_;
};

}  // namespace lynx
