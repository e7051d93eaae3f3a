// Cuts a byte stream into control frames and opens each as a Cap'n Proto message. Trusts nothing: neither the
// length, nor the segment table, nor a pointer, though the last shows only when it is followed. Internal to
// common/net.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/worker.capnp.h"

namespace lynx {

class FrameDecoder {
 public:
  enum class Step { kNeedMore, kDelivered, kCorrupt };

  void append(std::string_view bytes) { in_ += bytes; }

  // Hands out the frame at the front, if it is whole. The reader is valid during the call; a kj::Exception
  // that leaves on_frame counts as a broken message. After kCorrupt the decoder is of no further use.
  Step next(const std::function<void(proto::Frame::Reader)>& on_frame);

  const std::string& problem() const { return problem_; }  // with kCorrupt

 private:
  Step wait_for_more();
  Step corrupt(std::string problem);

  std::string in_;
  std::size_t used_ = 0;                // of in_
  std::vector<std::uint64_t> aligned_;  // one frame, where Cap'n Proto can read it
  std::string problem_;
};

}  // namespace lynx
