// off: every row keeps its exact top-k.
#include "kernels/lynx/selection.h"

namespace lynx {

void select_off(Selection& s) { s.activate_top_ranks(s.shape.top_k); }

}  // namespace lynx
