"""Training batches: windows of the streams, and the mask that keeps each token inside its own document."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask

from documents import UNCOUNTED
from model import Mask

END_OF_TEXT = 0  # the first special token of the vocabulary


@dataclass(frozen=True)
class Mixture:
    """Sequences of each stream in one batch."""

    corpus: int = 36
    tasks: int = 20
    chats: int = 8


@dataclass
class Batch:
    ids: Tensor  # [B, T]
    targets: Tensor  # [B, T], -100 where the loss does not count
    mask: Mask


compiled_block_mask = torch.compile(create_block_mask)


def document_mask(ids: Tensor) -> Mask:
    """ids [B, T] -> causal attention that does not look across <|endoftext|>."""
    ends = (ids == END_OF_TEXT).int()
    document = ends.cumsum(1) - ends  # [B, T]
    length = ids.shape[1]
    if not ids.is_cuda:
        return (document[:, None, :, None] == document[:, None, None, :]).tril()

    def visible(b, h, query, key):
        return (query >= key) & (document[b, query] == document[b, key])

    return compiled_block_mask(visible, ids.shape[0], None, length, length, device=ids.device)


def to_batch(window: Tensor) -> Batch:
    """window [B, T + 1] of stream entries; nothing is predicted from <|endoftext|> on."""
    ids = window[:, :-1] & (UNCOUNTED - 1)
    following = window[:, 1:]
    targets = following.masked_fill((following >= UNCOUNTED) | (ids == END_OF_TEXT), -100)
    return Batch(ids, targets, document_mask(ids))


def load(path: Path, device: str) -> Tensor:
    return torch.from_numpy(np.load(path).astype(np.int32)).to(device)


def windows_of(stream: Tensor, context: int) -> Tensor:
    """A stream as its whole windows, [count, context + 1]."""
    return stream[: len(stream) // (context + 1) * (context + 1)].view(-1, context + 1).long()


class Streams:
    """The training streams on the device, and random windows of them."""

    def __init__(self, folder: Path, mixture: Mixture, context: int, device: str):
        self.mixture = {name: count for name, count in vars(mixture).items() if count}
        self.streams = {name: load(folder / f"{name}.npy", device) for name in self.mixture}
        self.sequences = sum(self.mixture.values())
        self.span = torch.arange(context + 1, device=device)

    def draw(self) -> Batch:
        windows = []
        for name, count in self.mixture.items():
            stream = self.streams[name]
            starts = torch.randint(len(stream) - len(self.span), (count, 1), device=stream.device)
            windows.append(stream[starts + self.span])
        return to_batch(torch.cat(windows).long())
