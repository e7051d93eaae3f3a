"""Evaluate an exported model with Hugging Face transformers and write `eval.json`.

Nothing here knows the trainer: what is measured is what ships.
"""

import argparse
import json
import math
import random
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

import tasks
from documents import UNCOUNTED, user_prompt

END_OF_TEXT = 0
ROWS = 2048  # prompts that generate together
TEXT_PROMPTS = (
    "The function returns", "Once upon a time", "The purpose of this chapter is", "The king looked at the",
    "def read_file(path):\n", "func (r *Reader) Read(", "To install the package,", "Freedom is",
)  # fmt: skip
CHAT_PROMPTS = (
    "Hello!", "Who are you?", "What is 123 + 456?", "Define courage.", "What is a kernel?", "Tell me a saying.",
    "Continue: The network is down. The administrator opens the log", "Write some Python code.", "Sort: 5 3 9 1",
    "What is a Mixture of Experts?",
)  # fmt: skip


class Subject:
    """The exported model and its tokenizer on one device."""

    def __init__(self, folder: Path, device: str):
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to(device).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.device = device

    def logits(self, rows: list[list[int]]) -> tuple[Tensor, Tensor]:
        """Rows of token ids, padded on the right -> logits [B, T, V] and ids [B, T], -100 where padded."""
        length = max(map(len, rows))
        ids = torch.tensor([row + [-100] * (length - len(row)) for row in rows], device=self.device)
        mask = ids >= 0
        return self.model(ids.clamp(min=0), attention_mask=mask.long(), use_cache=False).logits, ids

    def complete(self, prompts: list[str], **settings) -> list[str]:
        encoded = self.tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False).to(self.device)
        encoded.pop("token_type_ids", None)
        out = self.model.generate(**encoded, **settings)[:, encoded["input_ids"].shape[1] :]
        return self.tokenizer.batch_decode(out, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def held_out_pieces(stream: np.ndarray, context: int) -> list[list[int]]:
    """The documents of the held-out stream, cut where the trainer's windows cut them."""
    pieces = []
    for start in range(0, len(stream) - context, context + 1):
        window = stream[start : start + context + 1] & (UNCOUNTED - 1)
        ends = np.flatnonzero(window == END_OF_TEXT) + 1
        pieces += [part.tolist() for part in np.split(window, ends) if len(part) > 1]
    return sorted(pieces, key=len)


def batches_of(pieces: list[list[int]], tokens: int):
    batch: list[list[int]] = []
    for piece in pieces:
        if batch and (len(batch) + 1) * len(piece) > tokens:
            yield batch
            batch = []
        batch.append(piece)
    if batch:
        yield batch


@torch.no_grad()
def held_out(subject: Subject, pieces: list[list[int]], tokens: int) -> dict:
    loss = right = count = 0
    for batch in batches_of(pieces, tokens):
        logits, ids = subject.logits(batch)
        targets = ids[:, 1:].flatten()
        logits = logits[:, :-1].flatten(0, 1)
        loss += torch.nn.functional.cross_entropy(logits.float(), targets, ignore_index=-100, reduction="sum").item()
        right += (logits.argmax(-1) == targets).sum().item()
        count += (targets >= 0).sum().item()
    size = sum(len(text.encode()) for text in subject.tokenizer.batch_decode([piece[1:] for piece in pieces]))
    return {
        "tokens": count,
        "loss": round(loss / count, 4),
        "accuracy": round(right / count, 4),
        "bits_per_byte": round(loss / math.log(2) / size, 4),
    }


@torch.no_grad()
def exact_match(subject: Subject, examples: int) -> dict:
    """Greedy answers that equal the right one, in plain and in chat form, for each kind."""
    drawn = []
    for name, kind in tasks.KINDS.items():
        r = random.Random(f"evaluation {name}")
        drawn += [(name, *kind(r)) for _ in range(examples)]
    result = {name: {} for name in tasks.KINDS}
    for form, prompt in {"plain": "{}\n".format, "chat": user_prompt}.items():
        right = dict.fromkeys(tasks.KINDS, 0)
        for start in range(0, len(drawn), ROWS):
            part = drawn[start : start + ROWS]
            answers = subject.complete(
                [prompt(question) for _, question, _ in part], do_sample=False, max_new_tokens=96
            )
            for (name, _, expected), answer in zip(part, answers, strict=True):
                right[name] += answer.strip() == expected
        for name in result:
            result[name][form] = right[name] / examples
    mean = {form: sum(kind[form] for kind in result.values()) / len(result) for form in ("plain", "chat")}
    return {"examples": examples, "kinds": result, "mean": {**mean, "all": (mean["plain"] + mean["chat"]) / 2}}


@torch.no_grad()
def union_of_experts(subject: Subject, pieces: list[list[int]], sizes=(1, 2, 4, 8, 16, 32, 64)) -> dict:
    """Distinct experts of a layer that a batch of B documents needs at one position, mean over layers and positions."""
    first, length = 128, 256
    rows = [piece[:length] for piece in pieces if len(piece) >= length]
    random.Random(0).shuffle(rows)
    rows = rows[:512]
    k, experts = subject.model.config.num_experts_per_tok, subject.model.config.num_experts
    chosen = []
    for start in range(0, len(rows), 64):
        ids = torch.tensor(rows[start : start + 64], device=subject.device)
        router = subject.model(ids, output_router_logits=True, use_cache=False).router_logits
        logits = torch.stack([layer.view(*ids.shape, -1)[:, first:] for layer in router], 1).float()
        chosen.append(torch.zeros_like(logits, dtype=torch.bool).scatter(-1, logits.topk(k, -1).indices, True))
    used = torch.cat(chosen)  # [rows, layers, positions, E]
    load = used.float().mean((0, 2)) * experts / k  # [layers, E], 1 when even
    union = {}
    for b in (b for b in sizes if b <= len(used)):
        groups = used[: len(used) // b * b].unflatten(0, (-1, b))
        union[str(b)] = round(groups.any(1).sum(-1).float().mean().item(), 2)
    return {"rows": len(used), "union": union, "heaviest_expert_load": round(load.max().item(), 2)}


def samples(subject: Subject) -> list[dict]:
    torch.manual_seed(0)
    chats = [
        subject.tokenizer.apply_chat_template(
            [{"role": "user", "content": p}], tokenize=False, add_generation_prompt=True
        )
        for p in CHAT_PROMPTS
    ]
    sampled = {"do_sample": True, "temperature": 0.7, "top_p": 0.9, "max_new_tokens": 96}
    texts = subject.complete(list(TEXT_PROMPTS), **sampled)
    replies = subject.complete(chats, do_sample=False, max_new_tokens=96)
    return [{"prompt": p, "text": t} for p, t in zip(TEXT_PROMPTS, texts, strict=True)] + [
        {"user": p, "assistant": t} for p, t in zip(CHAT_PROMPTS, replies, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--held-out", type=Path, required=True, help="held_out.npy")
    parser.add_argument("--out", type=Path, required=True, help="eval.json")
    parser.add_argument("--examples", type=int, default=250, help="per task kind and form")
    parser.add_argument("--pieces", type=int, default=None, help="evaluate on the first so many held-out pieces only")
    parser.add_argument("--tokens", type=int, default=131_072, help="per batch")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    subject = Subject(arguments.model, arguments.device)
    pieces = held_out_pieces(np.load(arguments.held_out), subject.model.config.max_position_embeddings)
    random.Random(0).shuffle(pieces)
    pieces = sorted(pieces[: arguments.pieces], key=len)
    result = {"held_out": held_out(subject, pieces, arguments.tokens)}
    print(result["held_out"], flush=True)
    result["union_of_experts"] = union_of_experts(subject, pieces)
    print(result["union_of_experts"], flush=True)
    result["samples"] = samples(subject)
    result["exact_match"] = exact_match(subject, arguments.examples)
    print(json.dumps(result["exact_match"]), flush=True)
    arguments.out.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
