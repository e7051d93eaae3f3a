"""Train the model for a given time: warm up, hold the learning rate, let it fall to zero.

A checkpoint carries all of the state, so a run that is stopped goes on where it was; its time counts on, too.
"""

import argparse
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from batches import END_OF_TEXT, Batch, Mixture, Streams, load, to_batch, windows_of
from model import Model, Shape, token_loss
from optimizer import optimizers


@dataclass(frozen=True)
class Settings:
    seconds: float = 1200.0
    learning_rate: float = 3e-3
    warm_up_steps: int = 200
    decay_share: float = 0.45  # of the time
    balance_weight: float = 0.01
    z_weight: float = 1e-4
    averaging: float = 0.999  # of the weights, per step
    save_every: float = 120.0  # seconds
    seed: int = 0


@dataclass
class Progress:
    step: int = 0
    tokens: int = 0
    seconds: float = 0.0


def learning_rate(settings: Settings, progress: Progress) -> float:
    rest = 1 - progress.seconds / settings.seconds
    return settings.learning_rate * min(
        (progress.step + 1) / settings.warm_up_steps, max(rest, 0) / settings.decay_share, 1
    )


class Trainer:
    """Owns the model, its optimizers and its running average; one thread, one device."""

    def __init__(self, shape: Shape, settings: Settings, device: str):
        torch.manual_seed(settings.seed)
        self.settings, self.device = settings, device
        self.model = Model(shape).to(device)
        self.average = [p.detach().clone() for p in self.model.parameters()]
        self.optimizers = optimizers(self.model, settings.learning_rate)
        self.progress = Progress()
        self.token_loss = token_loss
        if device == "cuda":
            self.token_loss = torch.compile(token_loss)
            for layer in self.model.layers:
                layer.compile()

    def loss(self, batch: Batch):
        with torch.autocast(self.device, torch.bfloat16):
            hidden, router = self.model(batch.ids, batch.mask)
            return self.token_loss(hidden.flatten(0, 1), self.model.embedding.weight, batch.targets.flatten()), router

    def step(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """One update; returns the token loss and the balance loss, still on the device."""
        rate = learning_rate(self.settings, self.progress)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        loss, router = self.loss(batch)
        (loss + self.settings.balance_weight * router.balance + self.settings.z_weight * router.z).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(self.average, list(self.model.parameters()), 1 - self.settings.averaging)
        self.progress.step += 1
        self.progress.tokens += batch.ids.numel()
        return loss.detach(), router.balance.detach()

    def held_out_loss(self, stream: Tensor, sequences: int) -> float:
        """Mean over the windows of the held-out stream, each document seen alone.

        In batches of the training size and with gradients on, though unused: anything else would be compiled anew.
        """
        windows = windows_of(stream, self.model.shape.context)
        windows = F.pad(windows, (0, 0, 0, -len(windows) % sequences), value=END_OF_TEXT)
        total = count = 0
        for window in windows.split(sequences):
            batch = to_batch(window)
            counted = (batch.targets >= 0).sum().item()
            total, count = total + self.loss(batch)[0].item() * counted, count + counted
        return total / count

    def save(self, path: Path) -> None:
        names = [name for name, _ in self.model.named_parameters()]
        state = {
            "shape": asdict(self.model.shape),
            "settings": asdict(self.settings),
            "progress": asdict(self.progress),
            "model": self.model.state_dict(),
            "average": dict(zip(names, self.average, strict=True)),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def resume(self, path: Path) -> None:
        state = torch.load(path, map_location=self.device)
        self.model.load_state_dict(state["model"])
        self.average = list(state["average"].values())
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.progress = Progress(**state["progress"])
        torch.manual_seed(self.settings.seed + self.progress.step)


def train(trainer: Trainer, streams: Streams, held_out: Tensor, checkpoint: Path) -> None:
    """Until the time is up. The first steps compile; they are not on the clock."""
    settings, progress = trainer.settings, trainer.progress
    for _ in range(2):
        trainer.step(streams.draw())
    last = saved = time.monotonic()
    while progress.seconds < settings.seconds:
        loss, balance = trainer.step(streams.draw())
        if progress.step % 20 == 0:
            loss = loss.item()  # waits for the device
            now = time.monotonic()
            progress.seconds, last = progress.seconds + now - last, now
        if progress.step % 200 == 0:
            print(
                f"step {progress.step} loss {loss:.3f} balance {balance.item():.3f} tokens {progress.tokens / 1e6:.0f}M"
                f" {progress.tokens / max(progress.seconds, 1) / 1e6:.2f}M/s time {progress.seconds:.0f}s"
                f" rate {learning_rate(settings, progress):.1e}",
                flush=True,
            )
        if last - saved > settings.save_every:
            trainer.save(checkpoint)
            saved = last
            print(f"held-out loss {trainer.held_out_loss(held_out, streams.sequences):.4f}", flush=True)
    trainer.save(checkpoint)
    print(f"held-out loss {trainer.held_out_loss(held_out, streams.sequences):.4f} at the end", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    groups = (Shape, Settings, Mixture)
    for field in (field for group in groups for field in fields(group)):
        kind = {"action": argparse.BooleanOptionalAction} if field.type is bool else {"type": field.type}
        parser.add_argument(f"--{field.name.replace('_', '-')}", default=field.default, **kind)
    arguments = vars(parser.parse_args())
    shape, settings, mixture = (group(**{f.name: arguments[f.name] for f in fields(group)}) for group in groups)
    trainer = Trainer(shape, settings, arguments["device"])
    if arguments["checkpoint"].exists():
        trainer.resume(arguments["checkpoint"])
    streams = Streams(arguments["streams"], mixture, shape.context, arguments["device"])
    held_out = load(arguments["streams"] / "held_out.npy", arguments["device"])
    train(trainer, streams, held_out, arguments["checkpoint"])


if __name__ == "__main__":
    main()
