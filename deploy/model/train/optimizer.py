"""Muon for the matrices, AdamW for the rest.

Muon (Jordan et al., 2024) replaces the momentum of a matrix by its nearest orthogonal matrix; scaled as in Moonlight
(arXiv 2502.16982, section 2.2) its steps have the size of AdamW's, so that both take one learning rate.
"""

import torch
from torch import Tensor, nn


@torch.compile(dynamic=False)
def orthogonalise(matrices: Tensor) -> Tensor:
    """[M, rows, columns] with rows <= columns -> nearly orthogonal, by five Newton-Schulz steps."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices.bfloat16()
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


class Muon(torch.optim.Optimizer):
    """Parameters [rows, columns] or [E, rows, columns]; those of one shape are orthogonalised together."""

    def __init__(self, parameters, lr: float, momentum: float = 0.95, weight_decay: float = 0.1):
        by_shape: dict[torch.Size, list[nn.Parameter]] = {}
        for parameter in parameters:
            by_shape.setdefault(parameter.shape, []).append(parameter)
        groups = [{"params": group} for group in by_shape.values()]
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            gradients = [p.grad for p in parameters]
            for p in parameters:
                if "momentum" not in self.state[p]:
                    self.state[p]["momentum"] = torch.zeros_like(p)
            momenta = [self.state[p]["momentum"] for p in parameters]
            torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
            nesterov = torch._foreach_lerp(gradients, momenta, group["momentum"])
            updates = orthogonalise(torch.stack(nesterov).view(-1, *parameters[0].shape[-2:]))
            size = 0.2 * max(parameters[0].shape[-2:]) ** 0.5
            updates = updates.view(len(parameters), *parameters[0].shape).to(parameters[0].dtype).unbind()
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(parameters, updates, alpha=-group["lr"] * size)


def optimizers(model: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    """Muon for attention and experts; AdamW for embedding, routers and norms."""
    matrices, others, scales = [], [], []
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2:
            scales.append(parameter)
        elif "router" in name or "embedding" in name:
            others.append(parameter)
        else:
            matrices.append(parameter)
    groups = [{"params": others, "weight_decay": 0.1}, {"params": scales, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=parameter.is_cuda)
    return [Muon(matrices, lr), adamw]
