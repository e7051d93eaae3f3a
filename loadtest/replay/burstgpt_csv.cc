// BurstGPT: Timestamp in seconds since the first day, request and response tokens. Read by column name:
// version 3 puts two columns between the old ones. Response tokens of 0 mark a request that failed when it
// was recorded.
#include "loadtest/replay/csv_columns.h"
#include "loadtest/replay/row_reader.h"
#include "loadtest/replay/row_text.h"

namespace lynx {
namespace {

class BurstGptReader final : public RowReader {
 public:
  explicit BurstGptReader(CsvColumns columns) : columns_(std::move(columns)) {}

  Result<TraceRequest> read(std::string_view row) const override {
    const auto fields = columns_.pick(row);
    if (!fields) return fields.error();
    const auto at = parse_seconds((*fields)[0], "Timestamp");
    if (!at) return at.error();
    if ((*fields)[2] == "0")
      return malformed("Response tokens is 0: the request failed when it was recorded");
    const auto input = parse_tokens((*fields)[1], "Request tokens");
    if (!input) return input.error();
    const auto output = parse_tokens((*fields)[2], "Response tokens");
    if (!output) return output.error();
    return TraceRequest{
        .at = nanoseconds_of(*at), .input_tokens = *input, .output_tokens = *output, .hash_ids = {}};
  }

 private:
  CsvColumns columns_;
};

}  // namespace

Result<std::unique_ptr<RowReader>> make_burstgpt_reader(std::string_view header) {
  auto columns = CsvColumns::find(header, {"Timestamp", "Request tokens", "Response tokens"});
  if (!columns) return columns.error();
  return std::unique_ptr<RowReader>(std::make_unique<BurstGptReader>(std::move(*columns)));
}

}  // namespace lynx
