#include <string>

#include "kernels/cuda/route.h"

namespace lynx::cuda {

Status check_route(const RouterShape& shape, PolicyKind policy) {
  const auto outside = [](const char* field, std::uint32_t most, std::uint32_t value) {
    return Error{ErrorCode::kInvalidArgument, std::string(field) + ": the CUDA router takes 1 to " +
                                                  std::to_string(most) + ", got " + std::to_string(value)};
  };
  if (shape.experts == 0 || shape.experts > kMaxRouteExperts)
    return outside("experts", kMaxRouteExperts, shape.experts);
  if (shape.top_k == 0 || shape.top_k > kMaxRouteTopK) return outside("top_k", kMaxRouteTopK, shape.top_k);
  if (is_of_the_laboratory(policy))
    return Error{ErrorCode::kInvalidArgument,
                 "policy: the CUDA router has no '" + std::string(to_string(policy)) + "'"};
  return {};
}

}  // namespace lynx::cuda
