// oea: the first `keep` experts of every row stay; the other slots are filled from what stays (opportunistic
// expert activation).
#include "kernels/lynx/selection.h"

namespace lynx {

void select_oea(Selection& s) { s.activate_top_ranks(s.policy.keep); }

}  // namespace lynx
