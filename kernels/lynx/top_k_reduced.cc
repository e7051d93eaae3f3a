// top_k_reduced: every row keeps its first `keep` experts and no others; the slots behind them stay empty.
#include "kernels/lynx/selection.h"

namespace lynx {

void select_top_k_reduced(Selection& s) { s.activate_top_ranks(s.policy.keep); }

}  // namespace lynx
