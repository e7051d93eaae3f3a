// The recording of router logits that tests use.
#pragma once

#include "kernels/bench/recorded_logits.h"

namespace lynx {

// The committed sample: 6 layers, 64 sequences, one position. Throws when it is damaged.
RecordedLogits sample_logits();

}  // namespace lynx
