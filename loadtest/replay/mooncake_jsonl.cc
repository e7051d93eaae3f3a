// Mooncake (FAST'25): timestamp in milliseconds since the start, one hash id per block of 512 tokens,
// chained: the same id means the same block after the same prefix.
#include "loadtest/replay/json_row.h"
#include "loadtest/replay/row_reader.h"
#include "loadtest/replay/row_text.h"

namespace lynx {
namespace {

class MooncakeReader final : public RowReader {
 public:
  Result<TraceRequest> read(std::string_view row) const override {
    auto parsed = parse_json_row(row);
    if (!parsed) return parsed.error();
    const std::size_t blocks = (std::size_t{parsed->input_tokens} + block_tokens() - 1) / block_tokens();
    if (parsed->hash_ids.size() != blocks)
      return malformed("the number of hash_ids is not input_length / 512, rounded up");
    return TraceRequest{.at = nanoseconds_of(parsed->timestamp / 1000),
                        .input_tokens = parsed->input_tokens,
                        .output_tokens = parsed->output_tokens,
                        .hash_ids = std::move(parsed->hash_ids)};
  }
  std::uint32_t block_tokens() const override { return 512; }
};

}  // namespace

std::unique_ptr<RowReader> make_mooncake_reader() { return std::make_unique<MooncakeReader>(); }

}  // namespace lynx
