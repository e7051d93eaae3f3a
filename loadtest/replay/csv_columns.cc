#include "loadtest/replay/csv_columns.h"

#include <algorithm>

#include "loadtest/replay/row_text.h"

namespace lynx {

Result<CsvColumns> CsvColumns::find(std::string_view header, std::initializer_list<std::string_view> names) {
  const auto fields = split_csv(header);
  if (!fields) return fields.error();
  CsvColumns columns;
  columns.columns_ = fields->size();
  for (const std::string_view name : names) {
    const auto at = std::find(fields->begin(), fields->end(), name);
    if (at == fields->end()) return malformed("the header has no column '" + std::string(name) + "'");
    columns.places_.push_back(static_cast<std::size_t>(at - fields->begin()));
  }
  return columns;
}

Result<std::vector<std::string>> CsvColumns::pick(std::string_view row) const {
  auto fields = split_csv(row);
  if (!fields) return fields.error();
  if (fields->size() != columns_)
    return malformed("the header has " + std::to_string(columns_) + " columns, the row another number");
  std::vector<std::string> picked;
  for (const std::size_t place : places_) picked.push_back(std::move((*fields)[place]));
  return picked;
}

}  // namespace lynx
