#!/usr/bin/env python3
"""Our decode attention and FlashInfer's on the same paged KV, in one process, at the dimensions of Qwen3-30B-A3B.

FlashInfer's are the CUDA-core kernel, the tensor-core one (use_tensor_cores), and XQA, its choice for a Hopper: with
pages ordered token by token, as ours, and, if asked, head by head. "exact" is a plan for this batch alone, which no
captured graph could replay for the next one. Plans are made before the time is taken, and queries are bf16 for
FlashInfer, f32 for ours. Graph replays, medians, several layers in turn so that L2 does not help, as in lynx-bench
dense.

Ours also norms and turns queries and keys and writes the newest keys and values into the pages. Here it is given those
that lie there already, gathered before the time is taken, no norm, and an embedding of cosines 1 and sines 0.
FlashInfer's times have nothing of this in them.

First every decoder is held against PyTorch in f32, on new random values: sequences of different lengths, then what is
timed. One that is off or refuses is named, has no time, and makes this fail at the end. "bits alone" says whether rows
have the same bits without their batch mates.

Needs PyTorch, an H200 or H100, and the library that kernels/bench/flashinfer/build makes.
usage: measure.py [--library FILE] [--seed N] [--kinds lynx cuda-cores ...] [--head-by-head]
"""
import argparse
import ctypes
import math
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from attention_rivals import HEAD, KV_HEADS, Q_HEADS, graph_microseconds  # noqa: E402

PAGE = 16
SHAPES = [(1, 1024), (16, 1024), (32, 1024), (64, 1024), (16, 8192)]  # rows, context: those of lynx-bench dense
REPORTED = ["lynx", "cuda-cores", "tensor-cores", "tensor-cores-exact", "xqa"]
KINDS = [*REPORTED, "cuda-cores-exact"]
ALLOWED = 1e-2  # relative to the norm, as in our tests of attention
UNEVEN = [1, 15, 16, 17, 127, 1000, 1024, 4000, 4096]  # tokens; rows of random lengths fill the batch up
UNEVEN_ROWS, UNEVEN_MOST = 64, 4096  # enough that FlashInfer splits a row otherwise than alone
FAR = 1.2e9  # bytes between two uses of the same KV, as in lynx-bench dense


class Library:
    def __init__(self, path):
        self.calls = ctypes.CDLL(str(path))
        pointer, ints = ctypes.c_void_p, ctypes.POINTER(ctypes.c_int32)
        signatures = {
            "decoder_error": [ctypes.c_char_p],
            "decoder_open": [pointer, ctypes.c_char_p, *[ctypes.c_uint32] * 4, ints, ints, ctypes.c_int32],
            "decoder_takes_f32": [ctypes.c_int, pointer],
            "decoder_run": [ctypes.c_int, *[pointer] * 7],
            "decoder_close": [None, pointer],
            "read_bandwidth": [ctypes.c_double, ctypes.c_size_t],
        }
        for name, (result, *arguments) in signatures.items():
            getattr(self.calls, name).restype = result
            getattr(self.calls, name).argtypes = arguments

    def check(self, ok, what):
        if not ok:
            raise RuntimeError(f"{what}: {self.calls.decoder_error().decode()}")

    def bandwidth(self):
        value = self.calls.read_bandwidth(4 << 30)
        self.check(value > 0, "read bandwidth")
        return value


class Decoder:
    """One decoder for one batch: `lengths` [rows] tokens, `pages` [rows, pages of a row], both on the host."""

    def __init__(self, library, kind, heads_first, lengths, pages):
        self.library, self.kind, self.lengths, self.pages = library, kind, lengths, pages
        rows, of_row = pages.shape
        flat = lambda values: (ctypes.c_int32 * len(values))(*values)
        self.handle = library.calls.decoder_open(kind.encode(), rows, Q_HEADS, KV_HEADS, of_row, flat(lengths),
                                                 flat(pages.flatten().tolist()), int(heads_first))
        library.check(self.handle, kind)
        self.type = torch.float32 if library.calls.decoder_takes_f32(self.handle) else torch.bfloat16

    def newest(self, layer):
        """K and V [2, rows, KV_HEADS, HEAD] of the last tokens, in f32; None for a decoder that has no use for them."""
        if self.type != torch.float32:
            return None
        last = torch.tensor(self.lengths) - 1
        page = self.pages[torch.arange(len(last)), last // PAGE].to(layer.device)
        tokens = layer.view(-1, 2, PAGE, KV_HEADS, HEAD)[page.long(), :, (last % PAGE).to(layer.device)]
        return tokens.transpose(0, 1).float().contiguous()

    def run(self, q, newest, layer, out):
        """q [rows, Q_HEADS, HEAD] of self.type; newest of this layer; layer: bf16 pages; out as q, bf16."""
        assert q.dtype == self.type and q.is_contiguous() and layer.is_contiguous() and out.is_contiguous()
        k, v = (None, None) if newest is None else (newest[0].data_ptr(), newest[1].data_ptr())
        status = self.library.calls.decoder_run(self.handle, q.data_ptr(), k, v, layer.data_ptr(), out.data_ptr(),
                                                torch.cuda.current_stream().cuda_stream)
        self.library.check(status == 0, self.kind)

    def __call__(self, q, layer):
        q, newest = q.to(self.type), self.newest(layer)
        out = torch.full(q.shape, math.nan, dtype=torch.bfloat16, device=q.device)
        torch.cuda.synchronize()
        self.run(q, newest, layer, out)
        torch.cuda.synchronize()
        return out

    def close(self):
        self.library.calls.decoder_close(self.handle)


def random_pages(*count):
    return torch.randn(*count, 2 * PAGE * KV_HEADS * HEAD, device="cuda", dtype=torch.bfloat16)


def reference(q, layer, lengths, pages, heads_first):
    """Attention in f32. q [rows, Q_HEADS, HEAD] bf16, layer [pages, values of a page] bf16."""
    out = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    for row, length in enumerate(lengths):
        kv = layer[pages[row].to(q.device)].float()
        if heads_first:
            k, v = kv.view(-1, 2, KV_HEADS, PAGE, HEAD).permute(1, 2, 0, 3, 4).reshape(2, KV_HEADS, -1, HEAD)
        else:
            k, v = kv.view(-1, 2, PAGE, KV_HEADS, HEAD).permute(1, 3, 0, 2, 4).reshape(2, KV_HEADS, -1, HEAD)
        grouped = q[row].float().view(KV_HEADS, Q_HEADS // KV_HEADS, HEAD)
        scores = grouped @ k[:, :length].transpose(1, 2) / math.sqrt(HEAD)
        out[row] = (scores.softmax(-1) @ v[:, :length]).view(Q_HEADS, HEAD)
    return out


def error_of(out, expected):
    return float((out.float() - expected).norm() / expected.norm())


def scattered_pages(rows, context):
    of_row = context // PAGE
    return torch.randperm(rows * of_row, dtype=torch.int32).view(rows, of_row)


def random_queries(rows):
    return torch.randn(rows, Q_HEADS, HEAD, device="cuda", dtype=torch.bfloat16)


def check_uneven(library, kind, heads_first):
    """The worst row's error, and whether each row of UNEVEN has the same bits alone."""
    lengths = UNEVEN + torch.randint(1, UNEVEN_MOST + 1, (UNEVEN_ROWS - len(UNEVEN),)).tolist()
    pages = scattered_pages(UNEVEN_ROWS, UNEVEN_MOST)
    layer, q = random_pages(pages.numel()), random_queries(UNEVEN_ROWS)
    whole = Decoder(library, kind, heads_first, lengths, pages)
    out = whole(q, layer)
    whole.close()
    expected = reference(q, layer, lengths, pages, heads_first)
    same = True
    for row, length in enumerate(UNEVEN):
        single = Decoder(library, kind, heads_first, [length], pages[row:row + 1])
        same = same and torch.equal(single(q[row:row + 1], layer)[0], out[row])
        single.close()
    return max(error_of(out[row], expected[row]) for row in range(UNEVEN_ROWS)), same


def label_of(kind, heads_first):
    return kind if kind == "lynx" else f"flashinfer {kind}, {'head by head' if heads_first else 'token by token'}"


def checked(error):
    if not error <= ALLOWED:  # not a number fails, too
        raise RuntimeError(f"relative error {error:.2e} against PyTorch, allowed are {ALLOWED}")
    return error


class Case:
    """Full sequences of one length in several layers, and what PyTorch makes of the first and the last."""

    def __init__(self, rows, context, orders):
        self.bytes = rows * context * 2 * 2 * KV_HEADS * HEAD  # of K and V of a layer
        self.layers = min(64, max(2, int(FAR / self.bytes) + 1))
        self.pages, self.lengths = scattered_pages(rows, context), [context] * rows
        self.pool, self.q = random_pages(self.layers, self.pages.numel()), random_queries(rows)
        self.expected = {heads_first: [reference(self.q, self.pool[i], self.lengths, self.pages, heads_first)
                                       for i in (0, self.layers - 1)] for heads_first in orders}

    def measure(self, library, kind, heads_first):
        """Microseconds of a layer, and the larger error."""
        decoder = Decoder(library, kind, heads_first, self.lengths, self.pages)
        first, last = self.expected[heads_first]
        before = checked(error_of(decoder(self.q, self.pool[0]), first))
        q, out = self.q.to(decoder.type), torch.empty_like(self.q)
        newest = [decoder.newest(layer) for layer in self.pool]
        torch.cuda.synchronize()
        us = graph_microseconds(lambda i: decoder.run(q, newest[i], self.pool[i], out), self.layers)
        after = checked(error_of(out, last))
        decoder.close()
        return us, max(before, after)


def attempt(failed, decoder, call):
    """What call() says; a decoder that failed once is not called again."""
    if decoder in failed:
        return
    try:
        print(f"{label_of(*decoder):<50} {call(*decoder)}", flush=True)
    except RuntimeError as error:
        failed.append(decoder)
        print(f"{label_of(*decoder):<50} FAILED: {error}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default="out/flashinfer/libdecoders.so")
    parser.add_argument("--seed", type=int, help="of the random values; by default new ones every time")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=REPORTED)
    parser.add_argument("--head-by-head", action="store_true", help="FlashInfer's also with pages ordered so")
    options = parser.parse_args()
    seed = torch.seed() if options.seed is None else options.seed
    torch.manual_seed(seed)
    library = Library(pathlib.Path(options.library).resolve())
    bandwidth = library.bandwidth()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {seed}, reads {bandwidth * 1e-12:.3f} TB/s")
    orders = [False, True] if options.head_by_head else [False]
    decoders = [(kind, heads_first) for heads_first in orders for kind in options.kinds
                if not (kind == "lynx" and heads_first)]
    failed = []

    def uneven(kind, heads_first):
        error, same = check_uneven(library, kind, heads_first)
        return f"uneven lengths: error {checked(error):.1e}, bits alone: {'same' if same else 'others'}"

    for decoder in decoders:
        attempt(failed, decoder, uneven)
    for rows, context in SHAPES:
        case = Case(rows, context, orders)
        floor = case.bytes / bandwidth * 1e6
        print(f"\nB = {rows}, context {context}: {case.bytes / 1e6:.1f} MB a layer, floor {floor:.1f} us", flush=True)

        def timed(kind, heads_first):
            us, error = case.measure(library, kind, heads_first)
            return f"{us:8.1f} us {us / floor:6.2f} x  error {error:.1e}"

        for decoder in decoders:
            attempt(failed, decoder, timed)
    if failed:
        raise SystemExit(f"{len(failed)} of {len(decoders)} decoders failed")


if __name__ == "__main__":
    main()
