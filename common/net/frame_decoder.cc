#include "common/net/frame_decoder.h"

#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstring>

#include "common/net/frame_stream.h"

namespace lynx {
namespace {

constexpr std::size_t kHeaderBytes = 4;
constexpr std::size_t kKeepBytes = 1 << 20;  // buffers that grew beyond it for one large frame are given back

// A reader may look at a field more than once; a message that makes it walk far more than its own size is
// hostile.
capnp::ReaderOptions reader_options(std::size_t words) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 16 * words + 1024;
  options.nestingLimit = 16;
  return options;
}

std::uint32_t load_le32(const char* bytes) {
  const auto* b = reinterpret_cast<const unsigned char*>(bytes);
  return b[0] | b[1] << 8 | b[2] << 16 | static_cast<std::uint32_t>(b[3]) << 24;
}

}  // namespace

FrameDecoder::Step FrameDecoder::next(const std::function<void(proto::Frame::Reader)>& on_frame) {
  const std::string_view bytes = std::string_view(in_).substr(used_);
  if (bytes.size() < kHeaderBytes) return wait_for_more();
  const std::size_t words = load_le32(bytes.data());
  const std::size_t size = words * sizeof(capnp::word);
  if (words == 0 || size > kMaxFrameBytes)
    return corrupt("a frame claims " + std::to_string(size) + " bytes");
  if (bytes.size() < kHeaderBytes + size) return wait_for_more();
  aligned_.resize(words);
  std::memcpy(aligned_.data(), bytes.data() + kHeaderBytes, size);
  used_ += kHeaderBytes + size;
  try {
    const auto* begin = reinterpret_cast<const capnp::word*>(aligned_.data());
    capnp::FlatArrayMessageReader reader(kj::arrayPtr(begin, words), reader_options(words));
    on_frame(reader.getRoot<proto::Frame>());
  } catch (const kj::Exception& e) {
    return corrupt(std::string("broken message: ") + e.getDescription().cStr());
  }
  if (size > kKeepBytes) aligned_ = {};
  return Step::kDelivered;
}

FrameDecoder::Step FrameDecoder::wait_for_more() {
  in_.erase(0, std::exchange(used_, 0));
  if (in_.empty() && in_.capacity() > kKeepBytes) in_.shrink_to_fit();
  return Step::kNeedMore;
}

FrameDecoder::Step FrameDecoder::corrupt(std::string problem) {
  problem_ = std::move(problem);
  return Step::kCorrupt;
}

}  // namespace lynx
