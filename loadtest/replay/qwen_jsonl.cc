// Qwen-Bailian: timestamp in seconds, one hash id per block of 16 tokens. The last block of a turn may differ
// from the next turn's (padding, thinking tokens taken out), so the number of ids is not checked.
#include "loadtest/replay/json_row.h"
#include "loadtest/replay/row_reader.h"
#include "loadtest/replay/row_text.h"

namespace lynx {
namespace {

class QwenReader final : public RowReader {
 public:
  Result<TraceRequest> read(std::string_view row) const override {
    auto parsed = parse_json_row(row);
    if (!parsed) return parsed.error();
    if (parsed->timestamp > 4e9) return malformed("timestamp is out of range");
    return TraceRequest{.at = nanoseconds_of(parsed->timestamp),
                        .input_tokens = parsed->input_tokens,
                        .output_tokens = parsed->output_tokens,
                        .hash_ids = std::move(parsed->hash_ids)};
  }
  std::uint32_t block_tokens() const override { return 16; }
};

}  // namespace

std::unique_ptr<RowReader> make_qwen_reader() { return std::make_unique<QwenReader>(); }

}  // namespace lynx
