"""States of a small transformer in training, cast to bfloat16 after each step, as servers get them.

A model of bytes is pretrained on the sources of Python's standard library. Then group-relative policy
gradients (GRPO) go on from it at the learning rates of reinforcement learning: groups of completions of one
prompt, a reward that can be computed, and advantages within the group. The masters are float32, the optimizer
is AdamW, and the completions are sampled with the bfloat16 weights. The same text with its cases swapped is
the task of the supervised fine-tune.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from wirecodec.arrays import Array

__all__ = [
    "Model",
    "Plan",
    "Reinforcement",
    "State",
    "draw",
    "fine_tune",
    "pretrain",
    "read_text",
    "reinforce",
    "sample",
]

State = dict[str, Array]
"""{name: bfloat16 array}."""
BYTES, FILES = 256, 150
REWARDED = b"aeiou_"
"""Bytes of a completion that are worth a reward of 1."""


@dataclass(frozen=True)
class Plan:
    """Sizes of a training.

    Attributes:
        width, blocks, heads: of the model.
        window: bytes of a sequence.
        batch: sequences per step of pretraining.
        pretraining: steps at the rate ``pretraining_rate``.
        prompts, group, completion: prompts per step, completions per prompt, and bytes of each.
    """

    width: int = 256
    blocks: int = 6
    heads: int = 8
    window: int = 128
    batch: int = 12
    pretraining: int = 400
    pretraining_rate: float = 1.5e-3
    prompts: int = 4
    group: int = 8
    completion: int = 24


class _Block(nn.Module):  # type: ignore[misc]
    """Attention and a gated layer, each after a norm and beside the identity."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        width, hidden = plan.width, 64 * (plan.width * 8 // 3 // 64 + 1)
        self.heads = plan.heads
        self.before_attention, self.before_mlp = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, window, width) activations."""
        batch, window, width = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, window, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, window, width))
        gate, up = self.gate_up(self.before_mlp(x)).chunk(2, -1)
        added: torch.Tensor = x + self.down(functional.silu(gate) * up)
        return added


class Model(nn.Module):  # type: ignore[misc]
    """Transformer of bytes with learned positions."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.embedding = nn.Embedding(BYTES, plan.width)
        self.position = nn.Embedding(plan.window, plan.width)
        self.blocks = nn.ModuleList(_Block(plan) for _ in range(plan.blocks))
        self.norm = nn.RMSNorm(plan.width)
        self.head = nn.Linear(plan.width, BYTES, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                deep = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * plan.blocks) ** (0.5 * deep))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits (batch, window, 256)."""
        x = self.embedding(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


def read_text(*, swapped: bool = False) -> torch.Tensor:
    """Read the standard library's sources as bytes, with upper and lower case swapped for another task."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:FILES]
    text = b"".join(path.read_bytes() for path in files)
    return torch.frombuffer(bytearray(text.swapcase() if swapped else text), dtype=torch.uint8)


def draw(text: torch.Tensor, count: int, length: int, random: torch.Generator) -> torch.Tensor:
    """Return ``count`` pieces of a text, (count, length) int64."""
    starts = torch.randint(0, len(text) - length, (count,), generator=random)
    return torch.stack([text[i : i + length] for i in starts.tolist()]).long()


def _cast(model: nn.Module) -> State:
    """Return the weights as bfloat16."""
    tensors = model.state_dict().items()
    return {
        name: x.to(torch.bfloat16).view(torch.int16).numpy().view(ml_dtypes.bfloat16) for name, x in tensors
    }


def _load(model: nn.Module, weights: dict[str, Any]) -> None:
    model.load_state_dict({name: torch.from_numpy(x) for name, x in weights.items()})


def _train(
    model: nn.Module, text: torch.Tensor, plan: Plan, rates: Iterable[float], random: torch.Generator
) -> Iterator[float]:
    """Train on the next byte, with one rate per step; yield the loss of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1)
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        pieces = draw(text, plan.batch, plan.window + 1, random)
        loss = functional.cross_entropy(model(pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


def pretrain(plan: Plan, step: Callable[[str], None]) -> dict[str, Array]:
    """Pretrain a model.

    Args:
        plan: sizes.
        step: called with a description of each step.

    Returns:
        The masters, {name: float32 array}.
    """
    torch.manual_seed(0)
    model, random = Model(plan), torch.Generator().manual_seed(1)
    peak, n = plan.pretraining_rate, plan.pretraining
    rates = [peak * min(1, (k + 1) / 30) * (1 - 0.9 * k / n) for k in range(n)]
    for loss in _train(model, read_text(), plan, rates, random):
        step(f"pretraining: loss {loss:.2f}")
    return {name: x.numpy().copy() for name, x in model.state_dict().items()}


def fine_tune(
    masters: dict[str, Array], plan: Plan, rate: float, steps: int, step: Callable[[str], None]
) -> State:
    """Fine-tune pretrained masters on another text; return the bfloat16 weights afterwards."""
    model, random = Model(plan), torch.Generator().manual_seed(2)
    _load(model, masters)
    for loss in _train(model, read_text(swapped=True), plan, [rate] * steps, random):
        step(f"fine-tuning: loss {loss:.2f}")
    return _cast(model)


@torch.no_grad()  # type: ignore[untyped-decorator]
def sample(model: nn.Module, prompts: torch.Tensor, length: int, random: torch.Generator) -> torch.Tensor:
    """Return prompts with completions, drawn byte by byte."""
    tokens = prompts
    for _ in range(length):
        chances = model(tokens)[:, -1].softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(chances, 1, generator=random)], 1)
    return tokens


class Reinforcement:
    """GRPO of pretrained masters, step by step.

    Args:
        masters: {name: float32 array}.
        plan: sizes.
        rate: learning rate.
        moments: state of the optimizer, as ``moments`` returns it; None for a new one.
    """

    def __init__(
        self, masters: dict[str, Array], plan: Plan, rate: float, moments: dict[str, Any] | None = None
    ) -> None:
        self._plan, self._text = plan, read_text()
        self._model, self._server = Model(plan), Model(plan)
        _load(self._model, masters)
        self._random = torch.Generator().manual_seed(3)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), rate, weight_decay=0.0)
        if moments is not None:
            self._optimizer.load_state_dict(moments)
        self._worth = torch.zeros(BYTES)
        self._worth[list(REWARDED)] = 1

    def step(self) -> float:
        """Make a step, and return the mean reward."""
        plan, server, start = self._plan, self._server, self._plan.window // 4
        _load(server, {name: x.astype(np.float32) for name, x in self.cast().items()})
        prompts = draw(self._text, plan.prompts, start, self._random).repeat_interleave(plan.group, 0)
        tokens = sample(server, prompts, plan.completion, self._random)
        reward = self._worth[tokens[:, start:]].mean(1).view(plan.prompts, plan.group)
        spread = reward.std(1, keepdim=True) + 1e-4
        advantage = ((reward - reward.mean(1, keepdim=True)) / spread).flatten()
        logits = server(tokens[:, :-1])[:, start - 1 :]
        chance = functional.log_softmax(logits, -1).gather(-1, tokens[:, start:, None])[..., 0]
        server.zero_grad()
        (-(advantage[:, None] * chance).mean()).backward()
        for master, cast in zip(self._model.parameters(), server.parameters(), strict=True):
            master.grad = cast.grad
        nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimizer.step()
        return float(reward.mean())

    def cast(self) -> State:
        """Return the weights as bfloat16."""
        return _cast(self._model)

    def masters(self) -> dict[str, Array]:
        """Return the masters, {name: float32 array}."""
        return {name: x.numpy().copy() for name, x in self._model.state_dict().items()}

    def moments(self) -> dict[str, Any]:
        """Return the state of the optimizer."""
        found: dict[str, Any] = self._optimizer.state_dict()
        return found


def reinforce(
    masters: dict[str, Array],
    plan: Plan,
    rate: float,
    kept: Iterable[int],
    step: Callable[[str], None],
) -> dict[int, State]:
    """Train pretrained masters by GRPO.

    Args:
        masters: of ``pretrain``.
        plan: sizes.
        rate: learning rate.
        kept: steps whose states are returned.
        step: called with a description of each step.

    Returns:
        {step: bfloat16 weights after it}.
    """
    run, wanted, found = Reinforcement(masters, plan, rate), set(kept), {}
    for k in range(1, max(wanted) + 1):
        reward = run.step()
        if k in wanted:
            found[k] = run.cast()
        step(f"GRPO at {rate:g}: reward {reward:.2f}")
    return found
