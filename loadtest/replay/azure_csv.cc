// The Azure LLM inference traces of 2023 (code, conv) and 2024 (one week):
// TIMESTAMP,ContextTokens,GeneratedTokens. Wall clock, 100 ns ticks; the 2024 files carry a zone and
// sometimes no fraction. Other columns, as in the multimodal trace, are passed over.
#include "loadtest/replay/csv_columns.h"
#include "loadtest/replay/row_reader.h"
#include "loadtest/replay/row_text.h"

namespace lynx {
namespace {

class AzureReader final : public RowReader {
 public:
  explicit AzureReader(CsvColumns columns) : columns_(std::move(columns)) {}

  Result<TraceRequest> read(std::string_view row) const override {
    const auto fields = columns_.pick(row);
    if (!fields) return fields.error();
    const auto at = parse_timestamp((*fields)[0]);
    if (!at) return at.error();
    const auto input = parse_tokens((*fields)[1], "ContextTokens");
    if (!input) return input.error();
    const auto output = parse_tokens((*fields)[2], "GeneratedTokens");
    if (!output) return output.error();
    return TraceRequest{.at = *at, .input_tokens = *input, .output_tokens = *output, .hash_ids = {}};
  }

 private:
  CsvColumns columns_;
};

}  // namespace

Result<std::unique_ptr<RowReader>> make_azure_reader(std::string_view header) {
  auto columns = CsvColumns::find(header, {"TIMESTAMP", "ContextTokens", "GeneratedTokens"});
  if (!columns) return columns.error();
  return std::unique_ptr<RowReader>(std::make_unique<AzureReader>(std::move(*columns)));
}

}  // namespace lynx
