// xshare: the `budget` experts with the largest probability over the whole batch, and each row's first.
#include "kernels/lynx/selection.h"

namespace lynx {

void select_xshare(Selection& s) {
  s.sum_probabilities();
  s.fill_to(s.policy.budget);
  s.activate_top_ranks(1);
}

}  // namespace lynx
