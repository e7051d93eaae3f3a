#!/usr/bin/env python3
"""PyTorch's attention (FlashAttention-2, cuDNN, memory-efficient) on the GPU, for comparison with ours.

Keys and values lie contiguous, gathered beforehand: none of these reads a paged pool. Decode packs the query heads
of a KV head as queries, which is the best they can do for grouped heads. Graph replays, medians, several layers in
turn so that L2 does not help. Prints one line per backend and shape.
"""

import sys

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

Q_HEADS, KV_HEADS, HEAD = 32, 4, 128  # Qwen3-30B-A3B
BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]


def graph_microseconds(call, layers, replays=15):
    """Median time of call(layer) over a captured pass through all layers."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for layer in range(min(layers, 3)):
            call(layer)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for layer in range(layers):
                call(layer)
        times = []
        for _ in range(replays + 2):
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop))
    return sorted(times[2:])[replays // 2] * 1e3 / layers


def decode(backend, rows, context):
    layers = max(2, min(64, int(1.2e9 / (4 * rows * context * KV_HEADS * HEAD)) + 1))
    shape = (layers, rows, KV_HEADS, context, HEAD)
    k = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    v = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    q = torch.randn(rows, KV_HEADS, Q_HEADS // KV_HEADS, HEAD, device="cuda", dtype=torch.bfloat16)
    with sdpa_kernel(backend):
        return graph_microseconds(lambda i: functional.scaled_dot_product_attention(q, k[i], v[i]), layers)


def prefill(backend, rows):
    shape = (1, Q_HEADS, rows, HEAD)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    with sdpa_kernel(backend):
        us = graph_microseconds(lambda _: functional.scaled_dot_product_attention(q, k, v, is_causal=True), 4)
    return 4e-6 * 0.5 * rows * (rows + 1) * Q_HEADS * HEAD / us


def attempt(label, unit, call):
    try:
        print(f"{label:<58} {call():9.2f} {unit}", flush=True)
    except Exception as error:  # a backend that does not take the shape says so
        print(f"{label:<58} not available: {str(error).splitlines()[0][:80]}", flush=True)


def main():
    print(torch.cuda.get_device_name(), "torch", torch.__version__, file=sys.stderr)
    for backend in BACKENDS:
        for rows in (1, 16, 32, 64):
            attempt(f"{backend.name} decode b{rows} c1024", "us", lambda: decode(backend, rows, 1024))
        attempt(f"{backend.name} decode b16 c8192", "us", lambda: decode(backend, 16, 8192))
        attempt(f"{backend.name} prefill t4096", "TFLOP/s", lambda: prefill(backend, 4096))


if __name__ == "__main__":
    main()
