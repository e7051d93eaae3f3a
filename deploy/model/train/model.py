"""The model: Qwen3-MoE, every layer a mixture of experts.

Shapes: B sequences, T positions, N = B * T tokens, H hidden, E experts, K experts per token, I units per expert,
D head dimension.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, flex_attention

Mask = BlockMask | Tensor  # Tensor: bool [B, 1, T, T]


@dataclass(frozen=True)
class Shape:
    vocabulary: int = 8192
    hidden: int = 256
    layers: int = 7
    experts: int = 64
    experts_per_token: int = 8
    expert_units: int = 32
    norm_topk_prob: bool = True
    query_heads: int = 4
    key_value_heads: int = 2
    head_dim: int = 64
    rope_theta: float = 10_000.0
    norm_epsilon: float = 1e-6
    context: int = 2048


class Norm(nn.Module):
    def __init__(self, size: int, epsilon: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weight.to(x.dtype), self.epsilon)


def rotary_table(shape: Shape) -> Tensor:
    """Cosines and sines, [2, T, D / 2]."""
    frequency = shape.rope_theta ** -(torch.arange(0, shape.head_dim, 2) / shape.head_dim)
    angle = torch.arange(shape.context)[:, None] * frequency
    return torch.stack([angle.cos(), angle.sin()])


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Rotary embedding in halves, as Hugging Face has it. x [B, heads, T, D], table [2, T, D / 2]."""
    first, second = x.float().chunk(2, -1)
    cos, sin = table
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)


def linear(inputs: int, outputs: int, deviation: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=deviation)
    return layer


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
    """q [B, heads, T, D], k and v [B, fewer heads, T, D] -> [B, heads, T, D]. A dense mask serves the CPU."""
    if isinstance(mask, BlockMask):
        return flex_attention(q, k, v, block_mask=mask, enable_gqa=True)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


class Attention(nn.Module):
    def __init__(self, shape: Shape, deviation: float, deviation_out: float):
        super().__init__()
        queries, keys = shape.query_heads * shape.head_dim, shape.key_value_heads * shape.head_dim
        self.head_dim = shape.head_dim
        self.q_proj = linear(shape.hidden, queries, deviation)
        self.k_proj = linear(shape.hidden, keys, deviation)
        self.v_proj = linear(shape.hidden, keys, deviation)
        self.o_proj = linear(queries, shape.hidden, deviation_out)
        self.q_norm = Norm(shape.head_dim, shape.norm_epsilon)
        self.k_norm = Norm(shape.head_dim, shape.norm_epsilon)

    def forward(self, x: Tensor, rotary: Tensor, mask: Mask) -> Tensor:
        """x [B, T, H] -> [B, T, H]; `mask` keeps a token inside its own document."""
        heads = (*x.shape[:2], -1, self.head_dim)
        q = rotate(self.q_norm(self.q_proj(x).view(heads)).transpose(1, 2), rotary)
        k = rotate(self.k_norm(self.k_proj(x).view(heads)).transpose(1, 2), rotary)
        v = self.v_proj(x).view(heads).transpose(1, 2)
        return self.o_proj(attend(q.to(v.dtype), k.to(v.dtype), v, mask).transpose(1, 2).flatten(2))


@dataclass
class RouterLoss:
    """Balance is 1 when the experts share the tokens evenly; z keeps the logits small (ST-MoE, section 3)."""

    balance: Tensor
    z: Tensor


class Experts(nn.Module):
    """Top-K of E experts.

    All experts are computed and the unchosen ones weighted with zero: the function is that of a sparse layer, and at
    E * I = 2048 units the three dense products cost less than to sort, gather and scatter eight copies of each token.
    The weights of one expert per token (K = 1) must not be renormalised: the router would learn nothing from the text.
    """

    def __init__(self, shape: Shape, deviation: float, deviation_out: float):
        super().__init__()
        self.per_token = shape.experts_per_token
        self.norm_topk_prob = shape.norm_topk_prob
        size = (shape.experts, shape.expert_units, shape.hidden)
        self.router = linear(shape.hidden, shape.experts, deviation)
        self.gate = nn.Parameter(torch.randn(size) * deviation)  # [E, I, H]
        self.up = nn.Parameter(torch.randn(size) * deviation)  # [E, I, H]
        self.down = nn.Parameter(torch.randn(size) * deviation_out)  # [E, I, H], transposed

    def route(self, x: Tensor) -> tuple[Tensor, RouterLoss]:
        """x [N, H] -> weights [N, E], zero but for the K largest probabilities of each row, renormalised or not."""
        logits = self.router(x).float()
        probability = logits.softmax(-1)
        top, chosen = probability.topk(self.per_token, -1)
        if self.norm_topk_prob:
            top = top / top.sum(-1, keepdim=True)
        weights = torch.zeros_like(probability).scatter(-1, chosen, top)
        load = (weights > 0).float().mean(0) / self.per_token
        balance = load.numel() * (load * probability.mean(0)).sum()
        return weights, RouterLoss(balance, logits.logsumexp(-1).square().mean())

    def forward(self, x: Tensor) -> tuple[Tensor, RouterLoss]:
        """x [N, H] -> [N, H]."""
        weights, loss = self.route(x)
        units = F.silu(F.linear(x, self.gate.flatten(0, 1))) * F.linear(x, self.up.flatten(0, 1))  # [N, E * I]
        units = units.unflatten(-1, self.gate.shape[:2]) * weights.unsqueeze(-1).to(units.dtype)
        return units.flatten(1) @ self.down.flatten(0, 1).to(units.dtype), loss


class Layer(nn.Module):
    def __init__(self, shape: Shape, deviation: float, deviation_out: float):
        super().__init__()
        self.input_norm = Norm(shape.hidden, shape.norm_epsilon)
        self.attention = Attention(shape, deviation, deviation_out)
        self.experts_norm = Norm(shape.hidden, shape.norm_epsilon)
        self.experts = Experts(shape, deviation, deviation_out)

    def forward(self, x: Tensor, rotary: Tensor, mask: Mask) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, T, H] -> the same shape, and the router's balance and z losses."""
        x = x + self.attention(self.input_norm(x), rotary, mask)
        mixed, loss = self.experts(self.experts_norm(x).flatten(0, 1))
        return x + mixed.view_as(x), loss.balance, loss.z


class Model(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        deviation = 0.02
        deviation_out = deviation / (2 * shape.layers) ** 0.5
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden)
        nn.init.normal_(self.embedding.weight, std=deviation)
        self.layers = nn.ModuleList(Layer(shape, deviation, deviation_out) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden, shape.norm_epsilon)
        self.register_buffer("rotary", rotary_table(shape), persistent=False)

    def forward(self, ids: Tensor, mask: Mask) -> tuple[Tensor, RouterLoss]:
        """ids [B, T] -> hidden states [B, T, H] and the mean router losses."""
        x, rotary = self.embedding(ids), self.rotary[:, : ids.shape[1]]
        balance = z = 0.0
        for layer in self.layers:
            x, layer_balance, layer_z = layer(x, rotary, mask)
            balance, z = balance + layer_balance, z + layer_z
        return self.norm(x), RouterLoss(balance / self.shape.layers, z / self.shape.layers)


def token_loss(hidden: Tensor, embedding: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy over the targets that are not -100. hidden [N, H], embedding [V, H], targets [N]."""
    return F.cross_entropy(F.linear(hidden, embedding.to(hidden.dtype)).float(), targets, ignore_index=-100)
