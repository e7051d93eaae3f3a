#include "kernels/cuda/long_wait.h"

namespace lynx::cuda {

std::string describe(LongWaitNote note) {
  const std::string block = "block " + std::to_string(static_cast<std::uint32_t>(note)) + " of the ";
  const std::string cause = ": does another process compute on this GPU?";
  switch (static_cast<LongWait>(note >> kWaitOfNote)) {
    case LongWait::kNone:
      return {};
    case LongWait::kMeeting:
      return "; " + block + "attention block waited some 10 s for the others" + cause;
    case LongWait::kGateUp:
      return "; " + block + "expert kernel waited some 10 s for another's outputs" + cause;
  }
  return {};
}

}  // namespace lynx::cuda
