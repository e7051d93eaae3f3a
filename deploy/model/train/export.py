"""Write a checkpoint as a Hugging Face `Qwen3MoeForCausalLM` folder."""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

RENAMED = {
    "input_norm.weight": "input_layernorm.weight",
    "experts_norm.weight": "post_attention_layernorm.weight",
    "experts.router.weight": "mlp.gate.weight",
}


def hugging_face(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """One tensor of the trainer as one or, for experts, E tensors with the names of Hugging Face."""
    if name == "embedding.weight":
        return {"model.embed_tokens.weight": tensor}
    if name == "norm.weight":
        return {"model.norm.weight": tensor}
    _, layer, rest = name.split(".", 2)
    prefix = f"model.layers.{layer}"
    if rest in RENAMED:
        return {f"{prefix}.{RENAMED[rest]}": tensor}
    if rest.startswith("attention."):
        return {f"{prefix}.self_attn.{rest.removeprefix('attention.')}": tensor}
    part = rest.removeprefix("experts.")  # gate, up or down: [E, I, H]
    slices = tensor.mT if part == "down" else tensor
    return {f"{prefix}.mlp.experts.{e}.{part}_proj.weight": matrix for e, matrix in enumerate(slices)}


def config(shape: dict, settings: dict) -> dict:
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "decoder_sparse_step": 1,
        "eos_token_id": 2,
        "head_dim": shape["head_dim"],
        "hidden_act": "silu",
        "hidden_size": shape["hidden"],
        "initializer_range": 0.02,
        "intermediate_size": shape["experts_per_token"] * shape["expert_units"],
        "max_position_embeddings": shape["context"],
        "mlp_only_layers": [],
        "moe_intermediate_size": shape["expert_units"],
        "norm_topk_prob": shape["norm_topk_prob"],
        "num_attention_heads": shape["query_heads"],
        "num_experts": shape["experts"],
        "num_experts_per_tok": shape["experts_per_token"],
        "num_hidden_layers": shape["layers"],
        "num_key_value_heads": shape["key_value_heads"],
        "output_router_logits": False,
        "pad_token_id": 0,
        "rms_norm_eps": shape["norm_epsilon"],
        "rope_scaling": None,
        "rope_theta": shape["rope_theta"],
        "router_aux_loss_coef": settings["balance_weight"],
        "sliding_window": None,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": shape["vocabulary"],
    }


GENERATION = {"do_sample": False, "eos_token_id": [2, 0], "pad_token_id": 0, "max_new_tokens": 256}


def write_json(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--average", action="store_true", help="the running average: better while the learning rate is high"
    )
    arguments = parser.parse_args()
    state = torch.load(arguments.checkpoint, map_location="cpu")
    tensors: dict[str, Tensor] = {}
    for name, tensor in state["average" if arguments.average else "model"].items():
        tensors |= hugging_face(name, tensor)
    tensors = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in tensors.items()}
    arguments.out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, arguments.out / "model.safetensors", metadata={"format": "pt"})
    write_json(arguments.out / "config.json", config(state["shape"], state["settings"]))
    write_json(arguments.out / "generation_config.json", GENERATION)
    write_json(arguments.out / "training.json", {key: state[key] for key in ("shape", "settings", "progress")})
    size = (arguments.out / "model.safetensors").stat().st_size
    print(f"{sum(t.numel() for t in tensors.values())} parameters, {size} bytes, step {state['progress']['step']}")


if __name__ == "__main__":
    main()
