// The operations of a step: each is a launch or two on the backend's stream.
#include <algorithm>
#include <stdexcept>

#include "common/core/check.h"
#include "kernels/cuda/attention_block.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/experts.h"
#include "kernels/cuda/norm_gemm.h"
#include "kernels/cuda/rope_store.h"
#include "kernels/cuda/route.h"
#include "kernels/cuda/rows.h"

namespace lynx::cuda {

void CudaBackend::embed(TensorView out, TensorView table) {
  step_.on_logit_rows = false;
  step_.live = stage_.live_rows();
  cuda::embed({out, table, stage_.tokens(), step_.live}, stream_.get());
}

// What follows is on the rows whose logits are wanted.
void CudaBackend::gather_rows(TensorView out, TensorView x) {
  step_.on_logit_rows = true;
  step_.live = stage_.live_logit_rows();
  cuda::gather_rows({out, x, stage_.logit_rows(), step_.live}, stream_.get());
}

void CudaBackend::rms_norm(TensorView out, TensorView x, TensorView weight, float eps) {
  cuda::rms_norm({out, x, weight, eps, step_.live}, stream_.get());
}

void CudaBackend::matmul(TensorView out, TensorView x, const Matrix& w) { multiply(out, x, w, false); }
void CudaBackend::matmul_add(TensorView out, TensorView x, const Matrix& w) { multiply(out, x, w, true); }

// Decode steps, and the head in every step, go by the kernel for few rows: it streams the weights, and a
// row's bits do not depend on how many there are. The rows of a prefill step go by the library.
void CudaBackend::multiply(TensorView out, TensorView x, const Matrix& w, bool add) {
  LYNX_CHECK(x.cols == w.k && out.cols == w.n && out.rows == x.rows, "matmul: shapes");
  GemmArgs args{out, x, static_cast<const CudaMatrix&>(w).weights(), add, step_.live, gpu_.kernels};
  const bool few = step_.decode || step_.on_logit_rows || w.n % 8 != 0;
  if (!few || !skinny_gemm_takes(w.n, w.k)) return wide_.run(args, stream_.get());
  const auto rows_from = [](TensorView view, std::uint32_t first, std::uint32_t count) {
    view.data += first * view.stride * bytes_of(view.dtype);
    view.rows = count;
    return view;
  };
  if (x.rows > kSkinnyRows) args.live_rows = nullptr;  // never padded
  for (std::uint32_t first = 0; first < x.rows; first += kSkinnyRows) {
    const std::uint32_t count = std::min(kSkinnyRows, x.rows - first);
    args.out = rows_from(out, first, count);
    args.x = rows_from(x, first, count);
    skinny_gemm(args, stream_.get());
  }
}

void CudaBackend::norm_matmul(TensorView out, TensorView normed, TensorView x, TensorView norm_weight,
                              float eps, const Matrix& w) {
  const NormGemmArgs args{.out = out,
                          .normed = normed,
                          .x = x,
                          .norm_weight = norm_weight,
                          .eps = eps,
                          .weights = static_cast<const CudaMatrix&>(w).weights(),
                          .live_rows = step_.live,
                          .kernels = gpu_.kernels};
  if (!step_.decode || !norm_gemm_takes(args))
    return Backend::norm_matmul(out, normed, x, norm_weight, eps, w);
  LYNX_CHECK(x.cols == w.k && out.cols == w.n && out.rows == x.rows && normed.rows == x.rows,
             "norm_matmul: shapes");
  norm_gemm(args, stream_.get());
}

DecodeAttentionArgs CudaBackend::decode_attention_args(TensorView out, const AttentionRows& in,
                                                       std::uint32_t layer) {
  const PageLayout& layout = step_.kv->layout();
  return {.out = out,
          .in = {.q = in.q,
                 .k = in.k,
                 .v = in.v,
                 .q_weight = in.norms.q,
                 .k_weight = in.norms.k,
                 .eps = in.norms.eps,
                 .rope = in.rope.values,
                 .kv = kv_layer(step_.kv->device(), layout, layer),
                 .rows = step_.decode ? stage_.decode_rows(layout) : stage_.prefill_rows(layout)},
          .max_context = limits_.context,
          .workspace = attention_workspace_.get(),
          .kernels = gpu_.kernels};
}

void CudaBackend::attention(TensorView out, const AttentionRows& in, std::uint32_t layer) {
  const DecodeAttentionArgs args = decode_attention_args(out, in, layer);
  if (step_.decode) {
    decode_attention(args, stream_.get());
    if (step_.kv_ready) traffic_.export_layer(*step_.kv, layer, stream_.get());
    return;
  }
  rope_store(args.in, stream_.get());
  if (step_.kv_ready) traffic_.export_layer(*step_.kv, layer, stream_.get());
  prefill_attention({.out = out,
                     .q = in.q,
                     .kv = args.in.kv,
                     .rows = args.in.rows,
                     .tiles = stage_.tiles(),
                     .tile_count = stage_.tile_count()},
                    stream_.get());
}

void CudaBackend::attention_block(TensorView x, const AttentionLayer& w, const AttentionScratch& scratch,
                                  std::uint32_t layer) {
  const AttentionBlockArgs args = {
      .x = x,
      .norm_weight = w.norm,
      .eps = w.eps,
      .qkv = static_cast<const CudaMatrix&>(w.qkv).weights(),
      .o = static_cast<const CudaMatrix&>(w.o).weights(),
      .normed = scratch.normed,
      .qkv_rows = scratch.qkv,
      .attention = decode_attention_args(scratch.attended, attention_rows(w, scratch), layer),
      .meetings = reinterpret_cast<std::uint32_t*>(block_meetings_.get()),
      .long_wait = long_wait()};
  if (!step_.decode || !attention_block_takes(args)) return Backend::attention_block(x, w, scratch, layer);
  cuda::attention_block(args, stream_.get());
  if (step_.kv_ready) traffic_.export_layer(*step_.kv, layer, stream_.get());
}

void CudaBackend::route(RoutingPlans& plans, std::uint32_t layer, TensorView logits) {
  const auto& out = static_cast<const CudaPlans&>(plans);
  LYNX_CHECK(logits.stride == logits.cols && logits.cols == out.shape.experts,
             "router logits are dense [T, E]");
  const RouteArgs args{.logits = logits.f32_row(0),
                       .plan = out.layer(layer, logits.rows),
                       .shape = out.shape,
                       .policy = step_.policy.kind,
                       .derived = derive(out.shape, step_.policy),
                       .live_rows = stage_.live_rows(),
                       .exact = stage_.exact(),
                       .kernels = gpu_.kernels};
  if (step_.decode) return cuda::route(args, stream_.get());
  if (step_.policy.kind != PolicyKind::kOff)
    throw std::runtime_error("device 'cuda' remaps experts in decode steps alone");
  route_prefill(args, stream_.get());
}

void CudaBackend::experts_add(TensorView out, TensorView x, const ExpertWeights& w, const RoutingPlans& plans,
                              std::uint32_t layer) {
  const auto& experts = static_cast<const CudaExperts&>(w);
  cuda::experts_add({.out = out.f32_row(0),
                     .out_stride = out.stride,
                     .x = x.bf16_row(0),
                     .x_stride = x.stride,
                     .packed = experts.memory.get(),
                     .shape = experts.shape(),
                     .plan = static_cast<const CudaPlans&>(plans).layer(layer, x.rows),
                     .workspace = experts_workspace_.get(),
                     .kernels = gpu_.kernels,
                     .prompt = !step_.decode,
                     .long_wait = long_wait()},
                    stream_.get());
}

void CudaBackend::sample(TensorView logits) {
  logits_ = logits;
  cuda::sample({.logits = logits,
                .rows = stage_.sampling(),
                .out = reinterpret_cast<SampledRow*>(samples_.get()),
                .live_rows = step_.live,
                .workspace = sample_workspace_.get()},
               stream_.get());
}

void CudaBackend::read_plan(const RoutingPlans& plans, std::uint32_t layer, ExpertPlan& out) {
  const auto& from = static_cast<const CudaPlans&>(plans);
  const DevicePlan plan = from.layer(layer, step_.shape.rows);
  const auto fetch = [](auto& to, const auto* device, std::size_t count) {
    to.resize(count);
    check(cudaMemcpy(to.data(), device, count * sizeof(*device), cudaMemcpyDeviceToHost),
          "cudaMemcpy of a plan");
  };
  std::vector<std::uint32_t> active_count;
  fetch(active_count, plan.count, 1);
  const std::size_t pairs = std::size_t{step_.rows} * plan.top_k;
  out.rows = step_.rows;
  out.top_k = plan.top_k;
  fetch(out.experts, plan.expert_of, pairs);
  fetch(out.weights, plan.weight_of, pairs);
  fetch(out.active, plan.active, active_count[0]);
  fetch(out.offsets, plan.offsets, std::size_t{active_count[0]} + 1);
  fetch(out.row_of, plan.row_of, out.offsets.back());
  fetch(out.slot_of, plan.slot_of, out.offsets.back());
  out.row_kept.clear();  // what each row kept stays on the device
  out.row_mass_q24.clear();
  out.stats = to_plan_stats(from.host_stats.at<DevicePlanStats>(0)[layer]);
}

}  // namespace lynx::cuda
