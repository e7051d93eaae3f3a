#include "tests/kernels/lynx/recordings.h"

#include "tests/support/paths.h"

namespace lynx {

RecordedLogits sample_logits() {
  return read_recorded_logits(source_path("tests/kernels/lynx/data/router_logits_6x64x64.f16"));
}

}  // namespace lynx
