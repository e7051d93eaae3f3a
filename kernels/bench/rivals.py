#!/usr/bin/env python3
"""The MoE layer by other means, on the same GPU as `lynx-bench kernel`: a Triton grouped kernel, and PyTorch's grouped matmul.

Both do gate-up, SiLU, down and the weighted sum over a plan that is made before; neither routes, and neither sorts inside
the time. Weights of several layers in turn, CUDA graphs, medians. Needs PyTorch, Triton and a GPU.

usage: rivals.py [--bandwidth TB/s] [--batches 1 4 16 32]
"""
import argparse
import statistics

import torch
import triton
import triton.language as tl

SHAPES = {  # experts, top-k, hidden, intermediate
    "qwen3-30b-a3b": (128, 8, 2048, 768),
    "qwen2-57b-a14b": (64, 8, 3584, 2560),
    "mixtral-8x7b": (8, 2, 4096, 14336),
    "deepseek-v2-lite": (64, 6, 2048, 1408),
}
ROWS = 16  # of a block of one expert's rows: what tl.dot takes at least
CONFIGS = [(64, 128, 4, 4), (128, 64, 4, 4), (64, 64, 4, 5), (128, 128, 8, 3)]  # outputs, inputs, warps, stages


@triton.jit
def gate_up_kernel(x, w, act, row_of, block_expert, H, I, ROWS: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    # One block of rows of one expert, N columns of gate and the same of up. w: [E, 2 I, H].
    block = tl.program_id(1)
    expert = tl.load(block_expert + block).to(tl.int64)
    pair = block * ROWS + tl.arange(0, ROWS)
    row = tl.load(row_of + pair)
    n = tl.program_id(0) * N + tl.arange(0, N)
    k = tl.arange(0, K)
    live = row >= 0
    x_at = x + row[:, None] * H + k[None, :]
    gate_at = w + expert * 2 * I * H + n[None, :] * H + k[:, None]
    up_at = gate_at + I * H
    gate = tl.zeros((ROWS, N), tl.float32)
    up = tl.zeros((ROWS, N), tl.float32)
    for start in range(0, H, K):
        a = tl.load(x_at + start, mask=live[:, None], other=0.0)
        gate = tl.dot(a, tl.load(gate_at + start), gate)
        up = tl.dot(a, tl.load(up_at + start), up)
    out = gate * tl.sigmoid(gate) * up
    tl.store(act + pair[:, None] * I + n[None, :], out.to(tl.bfloat16))


@triton.jit
def down_kernel(act, w, partial, slot_of, weight, block_expert, H, I, ROWS: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    block = tl.program_id(1)
    expert = tl.load(block_expert + block).to(tl.int64)
    pair = block * ROWS + tl.arange(0, ROWS)
    slot = tl.load(slot_of + pair)
    n = tl.program_id(0) * N + tl.arange(0, N)
    k = tl.arange(0, K)
    a_at = act + pair[:, None] * I + k[None, :]
    w_at = w + expert * H * I + n[None, :] * I + k[:, None]
    out = tl.zeros((ROWS, N), tl.float32)
    for start in range(0, I, K):
        out = tl.dot(tl.load(a_at + start), tl.load(w_at + start), out)
    out = out * tl.load(weight + pair)[:, None]
    tl.store(partial + slot[:, None] * H + n[None, :], out.to(tl.bfloat16), mask=(slot >= 0)[:, None])


@triton.jit
def read_kernel(data, sink, count, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.int32)
    for start in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        total += tl.load(data + start + tl.arange(0, BLOCK))
    tl.atomic_max(sink, tl.max(total))


def graph_us(enqueue, replays=11):
    """Microseconds of one replay of what enqueue() launches, the median."""
    enqueue()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        enqueue()
    times = []
    for i in range(replays + 2):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) * 1e3)
    return statistics.median(times[2:])


def read_bandwidth():
    data = torch.ones(1 << 30, dtype=torch.int32, device="cuda")
    sink = torch.zeros(1, dtype=torch.int32, device="cuda")
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    best = min(graph_us(lambda b=b: read_kernel[(sms * b,)](data, sink, data.numel(), BLOCK=4096, num_warps=8)) for b in (1, 2, 4))
    return data.numel() * 4 / best * 1e6


class Plan:
    """Random top-k routing of a batch, sorted by expert, each expert's rows padded to whole blocks."""

    def __init__(self, experts, top_k, batch, seed):
        generator = torch.Generator().manual_seed(seed)
        probabilities, ids = torch.randn(batch, experts, generator=generator).softmax(-1).topk(top_k)
        weights = probabilities / probabilities.sum(-1, keepdim=True)
        pairs = sorted((int(ids[r, s]), r, s) for r in range(batch) for s in range(top_k))
        row_of, slot_of, weight, block_expert, counts = [], [], [], [], [0] * experts
        for expert in sorted({p[0] for p in pairs}):
            mine = [p for p in pairs if p[0] == expert]
            counts[expert] = len(mine)
            pad = -len(mine) % ROWS
            row_of += [p[1] for p in mine] + [-1] * pad
            slot_of += [p[1] * top_k + p[2] for p in mine] + [-1] * pad
            weight += [float(weights[p[1], p[2]]) for p in mine] + [0.0] * pad
            block_expert += [expert] * ((len(mine) + pad) // ROWS)
        device = lambda values, dtype: torch.tensor(values, dtype=dtype, device="cuda")
        self.unique, self.batch, self.top_k = len({p[0] for p in pairs}), batch, top_k
        self.row_of, self.slot_of = device(row_of, torch.int32), device(slot_of, torch.int32)
        self.weight, self.block_expert = device(weight, torch.float32), device(block_expert, torch.int32)
        self.sorted_rows = device([p[1] for p in pairs], torch.int64)
        self.sorted_slots = device([p[1] * top_k + p[2] for p in pairs], torch.int64)
        self.sorted_weights = device([[float(weights[p[1], p[2]])] for p in pairs], torch.bfloat16)
        self.ends = torch.tensor(counts).cumsum(0).to(torch.int32).cuda()


class Layers:
    def __init__(self, experts, hidden, intermediate, batch):
        per_layer = 6 * experts * hidden * intermediate
        self.count = max(2, (3 << 30) // per_layer + 1)
        normal = lambda *size: torch.empty(size, dtype=torch.bfloat16, device="cuda").normal_(0, 0.02)
        self.gate_up = [normal(experts, 2 * intermediate, hidden) for _ in range(self.count)]
        self.down = [normal(experts, hidden, intermediate) for _ in range(self.count)]
        self.x = torch.randn(batch, hidden, device="cuda").to(torch.bfloat16)
        self.hidden, self.intermediate = hidden, intermediate


def triton_layer(layers, plan, i, buffers, config):
    n, k, warps, stages = config
    act, partial = buffers
    h, inner, blocks = layers.hidden, layers.intermediate, plan.block_expert.numel()
    gate_up_kernel[(inner // n, blocks)](layers.x, layers.gate_up[i], act, plan.row_of, plan.block_expert, h, inner, ROWS, n, k,
                                         num_warps=warps, num_stages=stages)
    down_kernel[(h // n, blocks)](act, layers.down[i], partial, plan.slot_of, plan.weight, plan.block_expert, h, inner, ROWS, n, k,
                                  num_warps=warps, num_stages=stages)
    return partial.view(plan.batch, plan.top_k, h).sum(1)


def torch_layer(layers, plan, i):
    x = layers.x[plan.sorted_rows]
    both = torch._grouped_mm(x, layers.gate_up[i].transpose(1, 2), offs=plan.ends)
    gate, up = both.chunk(2, dim=-1)
    out = torch._grouped_mm(torch.nn.functional.silu(gate) * up, layers.down[i].transpose(1, 2), offs=plan.ends)
    partial = torch.empty_like(out)
    partial[plan.sorted_slots] = out * plan.sorted_weights
    return partial.view(plan.batch, plan.top_k, -1).sum(1)


def measure(name, batch, bandwidth):
    experts, top_k, hidden, intermediate = SHAPES[name]
    layers = Layers(experts, hidden, intermediate, batch)
    plans = [Plan(experts, top_k, batch, seed) for seed in range(8)]
    most = max(p.block_expert.numel() for p in plans) * ROWS
    buffers = (torch.zeros(most, intermediate, dtype=torch.bfloat16, device="cuda"),
               torch.zeros(batch * top_k, hidden, dtype=torch.bfloat16, device="cuda"))
    unique = statistics.mean(p.unique for p in plans)
    floor = unique * 6 * hidden * intermediate / bandwidth * 1e6
    all_layers = lambda one: lambda: [one(p, i % layers.count) for i, p in enumerate(plans)]
    by_triton = min(graph_us(all_layers(lambda p, i, c=c: triton_layer(layers, p, i, buffers, c))) for c in CONFIGS
                    if intermediate % c[0] == 0 and intermediate % c[1] == 0) / len(plans)
    want = torch_layer(layers, plans[0], 0).float()
    got = triton_layer(layers, plans[0], 0, buffers, CONFIGS[2]).float()
    error = float((got - want).norm() / want.norm())
    by_torch = graph_us(all_layers(lambda p, i: torch_layer(layers, p, i))) / len(plans)
    print(f"{name + '.b' + str(batch):24} U {unique:6.1f}  floor {floor:7.1f} us  triton {by_triton:7.1f} us {by_triton / floor:5.2f} x"
          f"  torch {by_torch:7.1f} us {by_torch / floor:5.2f} x  (they differ by {error:.1e})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bandwidth", type=float, help="read bandwidth in TB/s, as lynx-bench kernel measured it")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16, 32])
    options = parser.parse_args()
    bandwidth = options.bandwidth * 1e12 if options.bandwidth else read_bandwidth()
    print(f"read bandwidth: {bandwidth * 1e-12:.3f} TB/s")
    for name in SHAPES:
        for batch in options.batches:
            measure(name, batch, bandwidth)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
