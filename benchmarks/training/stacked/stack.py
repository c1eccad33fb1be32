"""Stack: models of one architecture as rows of a matrix, which take their steps together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.func import functional_call, grad_and_value, vmap
from torch.nn import functional

__all__ = ["Plan", "Stack", "view_rows"]

Tensor = Any
"""Torch tensor."""


@dataclass(frozen=True)
class Plan:
    """What each model does in each step.

    Attributes:
        text: all characters, (n,).
        starts: of the rows of each batch, (steps, models, rows).
        length: characters of a row.
        workers: consecutive models that are the workers of one run.
        rates: learning rates, (steps, runs).
        betas: of Adam, one pair per run.
        clip: largest norm of a gradient.
        is_together: whether the workers of a run average their gradients before each step.
    """

    text: Tensor
    starts: Tensor
    length: int
    workers: int
    rates: Tensor
    betas: Sequence[tuple[float, float]]
    clip: float
    is_together: bool = False


def view_rows(values: Tensor, shapes: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return views of rows of parameters, (..., elements), as tensors (..., *shape) by name."""
    parts = values.split([shape.numel() for shape in shapes.values()], dim=-1)
    return {
        name: part.unflatten(-1, shape) if shape else part.squeeze(-1)
        for part, (name, shape) in zip(parts, shapes.items(), strict=True)
    }


class Stack:
    """Models with their AdamW states, on one device.

    Args:
        modules: one per model, all alike, with their initial parameters.
        plan: of the steps.

    Attributes:
        values: parameters, (models, elements).
        losses: of the steps taken, (steps, models).
    """

    def __init__(self, modules: Sequence[Any], plan: Plan) -> None:
        device = plan.text.device
        self._module = modules[0].to(device)
        self._shapes = {name: p.shape for name, p in modules[0].named_parameters()}
        rows = [torch.cat([p.detach().flatten() for p in one.parameters()]) for one in modules]
        self.values = torch.stack([row.to(device) for row in rows])
        self.losses = torch.zeros((len(plan.rates), len(modules)), device=device)
        self._plan = plan
        self._gradient = torch.zeros_like(self.values)
        self._optimizer = self._build_optimizer()
        self._step = torch.zeros((), dtype=torch.int64, device=device)
        self._graph: Any = None

    def view(self, values: Tensor) -> dict[str, Tensor]:
        """Return views of rows of parameters, (..., elements), as tensors (..., *shape) by name."""
        return view_rows(values, self._shapes)

    def run(self, count: int) -> None:
        """Take steps. On a GPU they are replayed, and run on after the call."""
        if self.values.is_cuda and self._graph is None:
            self._capture()
        for _ in range(count):
            if self._graph is None:
                self._take_step()
            else:
                self._graph.replay()

    def evaluate(self, row: Tensor, windows: Tensor) -> float:
        """Return the mean cross entropy of one model's parameters on windows (rows, length + 1)."""
        compute = self._make_loss()
        with torch.no_grad():
            parts = windows.to(row.device).split(512)
            total = sum(float(compute(self.view(row), part)) * len(part) for part in parts)
        return total / len(windows)

    def _make_loss(self) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
        def compute(parameters: dict[str, Tensor], windows: Tensor) -> Tensor:
            logits = functional_call(self._module, parameters, (windows[:, :-1],))
            chosen = windows[:, 1:, None] == torch.arange(logits.shape[-1], device=logits.device)
            return -(functional.log_softmax(logits, -1) * chosen).sum(-1).mean()

        return compute

    def _build_optimizer(self) -> Any:
        """Build AdamW with one group of parameters per run, which has a rate and betas of its own."""
        workers, on_gpu = self._plan.workers, self.values.is_cuda
        groups = []
        for number, betas in enumerate(self._plan.betas):
            rows = slice(number * workers, (number + 1) * workers)
            parameter = self.values[rows]
            parameter.grad = self._gradient[rows]
            groups.append({"params": [parameter], "betas": betas, "lr": self._plan.rates[0, number].clone()})
        return torch.optim.AdamW(groups, fused=True, capturable=on_gpu)

    def _capture(self) -> None:
        values = self.values.clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):  # libraries allocate in the first calls
                self._take_step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._take_step()
        self.values.copy_(values)
        self._step.zero_()
        for state in self._optimizer.state.values():
            for x in state.values():
                x.zero_()
        self._graph = graph

    def _take_step(self) -> None:
        plan, step = self._plan, self._step.view(1)
        starts = plan.starts.index_select(0, step)[0]
        windows = plan.text[starts[..., None] + torch.arange(plan.length + 1, device=starts.device)]
        gradients, losses = vmap(grad_and_value(self._make_loss()))(self.view(self.values), windows)
        for name, part in self.view(self._gradient).items():
            part.copy_(gradients[name])
        g = self._gradient
        norms = torch.linalg.vector_norm(g, dim=1, keepdim=True)
        g.mul_((plan.clip / norms).clamp(max=1))
        if plan.is_together:
            groups = g.view(-1, plan.workers, g.shape[1])
            groups.copy_(groups.mean(1, keepdim=True).expand_as(groups))
        rates = plan.rates.index_select(0, step)[0]
        for number, group in enumerate(self._optimizer.param_groups):
            group["lr"].copy_(rates[number])
        self._optimizer.step()
        self.losses.index_copy_(0, step, losses[None])
        self._step.add_(1)
