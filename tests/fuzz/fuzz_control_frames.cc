// Any bytes on the control port: they are cut into frames, and every field of every frame is read.
#include <capnp/pretty-print.h>

#include "common/net/frame_decoder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using lynx::FrameDecoder;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  FrameDecoder decoder;
  decoder.append(bytes.substr(0, size / 2));
  const auto read_all = [](lynx::proto::Frame::Reader frame) { (void)kj::str(frame); };
  auto step = FrameDecoder::Step::kDelivered;
  while (step == FrameDecoder::Step::kDelivered) step = decoder.next(read_all);
  if (step == FrameDecoder::Step::kCorrupt) return 0;
  decoder.append(bytes.substr(size / 2));
  do {
    step = decoder.next(read_all);
  } while (step == FrameDecoder::Step::kDelivered);
  return 0;
}
