// One trace format: turns a row into a request. One file per format; trace_reader.h finds the right one.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "common/core/result.h"
#include "loadtest/replay/trace.h"

namespace lynx {

class RowReader {
 public:
  virtual ~RowReader() = default;
  // `at` of the request counts from any fixed moment. An error is the reason why the row is none.
  virtual Result<TraceRequest> read(std::string_view row) const = 0;
  virtual std::uint32_t block_tokens() const { return 0; }
};

// The CSV formats find their columns by the names in the header row; an error names what is missing.
Result<std::unique_ptr<RowReader>> make_azure_reader(std::string_view header);
Result<std::unique_ptr<RowReader>> make_burstgpt_reader(std::string_view header);
std::unique_ptr<RowReader> make_mooncake_reader();
std::unique_ptr<RowReader> make_qwen_reader();

}  // namespace lynx
