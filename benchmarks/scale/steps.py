"""Whole training steps of torch models: forward and backward, the exchange of the gradient, and SGD.

A step with overlap is that of DistributedDataParallel over gloo, with its own all-reduce or with this
library's hook. Any other step computes, and then exchanges. All ranks share the cores of this machine, so
overlap is measured with a model whose computing needs none of them, as if it had an accelerator.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import collectives as co
import wirecodec as wc
from benchmarks.model.models import draw_gradient
from benchmarks.scale.systems import Options, Worker, build_exchange
from benchmarks.step.models import TRANSFORMER, Problem
from benchmarks.step.models import build as build_model

__all__ = ["COMPUTING", "LAYER_BYTES", "OVERLAPPED", "STEPS", "Trainee", "build_problem", "build_step"]

TRANSFORMER_12M, ACCELERATED = "transformer of 12 M", "MLP of 10 M on an emulated accelerator"
COMPUTING = "computing alone"
OVERLAPPED = {"dense, overlap": "dense", "allgather, overlap": "allgather", "Ok-Topk, overlap": "Ok-Topk"}
"""{name of a step: name of its system}."""
STEPS = {
    TRANSFORMER_12M: ("dense", "PowerSGD", "allgather", "CLT-k", "Ok-Topk"),
    ACCELERATED: ("dense", "allgather", "Ok-Topk", *OVERLAPPED),
}
"""{model in training: systems whose steps are measured}."""
LAYERS, WIDTH, LAYER_SECONDS = 10, 1000, 0.01
"""Of the model on an emulated accelerator; its backward takes twice the seconds."""
LAYER_BYTES = [4 * WIDTH * WIDTH] * LAYERS
LEARNING_RATE = 1e-3
_PORT = 29871


class Trainee(Worker):
    """Model in training, whose gradients are views of one vector.

    Args:
        name: of ``STEPS``.
        seed: of the batch.
    """

    def __init__(self, name: str, seed: int) -> None:
        import torch

        self.name, self.seed = name, seed
        self._problem = build_problem(name, seed)
        parameters = dict(self._problem.model.named_parameters())
        self.shapes = {key: tuple(parameter.shape) for key, parameter in parameters.items()}
        self.flat = np.zeros(sum(parameter.numel() for parameter in parameters.values()), np.float32)
        self.out_flat = np.zeros_like(self.flat)
        self.tensors, self.out = self._view(self.flat), self._view(self.out_flat)
        self._parameters = list(parameters.values())
        self._means = [torch.from_numpy(mean) for mean in self.out.values()]
        for key, parameter in parameters.items():
            parameter.grad = torch.from_numpy(self.tensors[key])
        self.compute()

    def compute(self) -> None:
        """Compute the gradient of the batch."""
        self.flat.fill(0)
        self._problem.loss(self._problem.model).backward()

    def update(self) -> None:
        """Take a step of SGD along the means."""
        import torch

        with torch.no_grad():
            torch._foreach_add_(self._parameters, self._means, alpha=-LEARNING_RATE)


def build_problem(name: str, seed: int) -> Problem:
    """Build a model of ``STEPS`` and its loss."""
    return build_model(TRANSFORMER, seed) if name == TRANSFORMER_12M else _build_accelerated(seed)


def _build_accelerated(seed: int) -> Problem:
    """Build layers that compute on an emulated accelerator: the processor waits, and gets a gradient."""
    import torch

    class Layer(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, x: Any, weight: Any, gradient: Any) -> Any:
            time.sleep(LAYER_SECONDS)
            context.gradient = gradient
            return x.clone()

        @staticmethod
        def backward(context: Any, *incoming: Any) -> Any:
            time.sleep(2 * LAYER_SECONDS)
            return incoming[0], context.gradient.clone(), None

    class Layers(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            shapes = [(WIDTH, WIDTH)] * LAYERS
            self.weights = torch.nn.ParameterList(torch.zeros(shape) for shape in shapes)
            self.gradients = [torch.from_numpy(x) for x in draw_gradient(shapes, seed)[0].values()]

        def forward(self, x: Any) -> Any:
            for weight, gradient in zip(self.weights, self.gradients, strict=True):
                x = Layer.apply(x, weight, gradient)
            return x

    start = torch.ones(1, requires_grad=True)
    return Problem(Layers(), lambda model: model(start).sum())


def build_step(
    name: str, trainee: Trainee, comm: Any, channel: co.Channel, options: Options
) -> Callable[[], Any]:
    """Build the training step of a system.

    Args:
        name: ``COMPUTING``, or one of the trainee's model in ``STEPS``.
        trainee: of this rank; steps with overlap have a model of their own.
        comm: communicator of all ranks.
        channel: of all ranks.
        options: the settings.
    """
    if name in OVERLAPPED:
        problem = build_problem(trainee.name, trainee.seed)
        return _build_overlapped(OVERLAPPED[name], problem, comm, channel, options)
    exchange = (lambda: None) if name == COMPUTING else build_exchange(name, trainee, channel, options)[0]

    def step() -> None:
        trainee.compute()
        exchange()
        trainee.update()

    return step


def _build_overlapped(
    system: str, problem: Problem, comm: Any, channel: co.Channel, options: Options
) -> Callable[[], Any]:
    """Build the step of a model that is wrapped in DistributedDataParallel."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    _connect(comm)
    wrapped = DistributedDataParallel(problem.model, gradient_as_bucket_view=True, init_sync=False)
    if system != "dense":
        make = co.OkTopK if system == "Ok-Topk" else wc.Compressor
        compressor = make(options.scheme)
        hook = co.torch_hook(compressor, channel, problem.model.named_parameters(), overlap=True)
        wrapped.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(problem.model.parameters(), LEARNING_RATE)

    def step() -> None:
        optimizer.zero_grad()
        problem.loss(wrapped).backward()
        optimizer.step()

    return step


def _connect(comm: Any) -> None:
    """Make torch's group of all ranks, once."""
    import torch.distributed as dist

    if dist.is_initialized():
        return
    if Path("/sys/class/net/eth0").exists():
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    address = comm.bcast(socket.gethostname())
    dist.init_process_group("gloo", f"tcp://{address}:{_PORT}", rank=comm.rank, world_size=comm.size)
