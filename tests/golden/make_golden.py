#!/usr/bin/env python3
"""Writes the golden data that tests/services/engine/test_golden.cc compares the engine with.

The reference is Hugging Face transformers in f32 on the CPU. For each model `golden.safetensors` holds, per prompt i:

    i.tokens  I32 [T]       the prompt
    i.top1    I32 [T]       the most likely next token at every position
    i.margin  F32 [T]       its logit minus the second best
    i.rows    I32 [S]       a sample of positions whose experts are not a tie that rounding decides ...
    i.logits  F32 [S, V]    ... and their full logits

Two tiny models with random bf16 weights are made here and written beside their data. The shipped model's data go to
tests/golden/shipped/ and must be made anew whenever deploy/model/ changes:

    python tests/golden/make_golden.py --only shipped

Needs: pip install torch transformers safetensors
"""

import argparse
import pathlib

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3MoeConfig, Qwen3MoeForCausalLM

HERE = pathlib.Path(__file__).parent
TEXT = pathlib.Path("/usr/share/common-licenses/GPL-3")  # any English text; what was used is stored in the data

TINY = {
    # 3 query heads per KV head, k and N unlike the shipped model's, an untied head.
    "tiny_gqa": dict(
        vocab_size=256, hidden_size=64, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=16,
        num_experts=12, num_experts_per_tok=3, moe_intermediate_size=16, norm_topk_prob=True, rms_norm_eps=1e-5,
        tie_word_embeddings=False, rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
    # One KV head, weights that are not renormalised, sizes that fill no whole panel of 32.
    "tiny_raw_weights": dict(
        vocab_size=200, hidden_size=48, num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=1, head_dim=32,
        num_experts=10, num_experts_per_tok=4, moe_intermediate_size=16, norm_topk_prob=False, rms_norm_eps=1e-6,
        tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1e4}),
}


def make_tiny(folder, settings, seed):
    """A random model whose routers and heads are as decided as a trained one's."""
    torch.manual_seed(seed)
    config = Qwen3MoeConfig(max_position_embeddings=2048, eos_token_id=2, decoder_sparse_step=1, mlp_only_layers=[], **settings)
    model = Qwen3MoeForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.copy_(1 + 0.2 * torch.randn_like(weight))
            else:
                weight.copy_(torch.randn_like(weight) * weight.shape[-1] ** -0.5 * (4 if "gate.weight" in name else 1))
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)


def decided_rows(router_logits, top_k):
    """[T] bool: positions where no layer's k-th and next expert are so close that f32 rounding picks between them."""
    decided = True
    for logits in router_logits:
        ranked = logits.sort(-1, descending=True).values
        decided &= ranked[:, top_k - 1] - ranked[:, top_k] > 1e-4
    return decided


def sample_rows(decided, count):
    """`count` positions spread from the first to the last, each moved to the nearest decided one."""
    allowed = decided.nonzero()[:, 0]
    wanted = torch.linspace(0, len(decided) - 1, count)
    return sorted({int(allowed[(allowed - w).abs().argmin()]) for w in wanted})


def golden(folder, out, prompts, rows_per_prompt):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    data = {}
    for i, prompt in enumerate(prompts):
        tokens = torch.tensor(prompt, dtype=torch.int32)
        with torch.no_grad():
            result = model(tokens[None].long(), output_router_logits=True)
        logits = result.logits[0]
        best = logits.topk(2, dim=-1)
        rows = sample_rows(decided_rows(result.router_logits, model.config.num_experts_per_tok), rows_per_prompt)
        data |= {f"{i}.tokens": tokens, f"{i}.top1": best.indices[:, 0].int().contiguous(),
                 f"{i}.margin": (best.values[:, 0] - best.values[:, 1]).contiguous(),
                 f"{i}.rows": torch.tensor(rows, dtype=torch.int32), f"{i}.logits": logits[rows].contiguous()}
    out.mkdir(exist_ok=True)
    save_file(data, out / "golden.safetensors")
    (out / "golden.safetensors").chmod(0o644)
    print(f"{out}: {len(prompts)} prompts, {(out / 'golden.safetensors').stat().st_size / 1e3:.0f} kB")


def random_prompt(vocab, length, seed):
    return torch.randint(0, vocab, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=HERE.parent.parent / "deploy" / "model", help="the shipped model")
    parser.add_argument("--only", choices=[*TINY, "shipped"])
    args = parser.parse_args()

    for seed, (name, settings) in enumerate(TINY.items(), start=1):
        if args.only in (None, name):
            make_tiny(HERE / name, settings, seed)
            lengths = (1, 2, 33, 300, 2048)
            golden(HERE / name, HERE / name, [random_prompt(settings["vocab_size"], n, n) for n in lengths], 16)

    if args.only in (None, "shipped"):
        text = AutoTokenizer.from_pretrained(args.model).encode(TEXT.read_text())
        prompts = [text[:1], text[100:117], random_prompt(8192, 64, 0), text[500:800], text[1000:2024], text[:2048]]
        golden(args.model, HERE / "shipped", prompts, 5)


if __name__ == "__main__":
    main()
