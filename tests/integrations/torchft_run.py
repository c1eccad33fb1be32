"""One replica of a training under torchft; prints a line of JSON at its end.

python -m tests.integrations.torchft_run MODE REPLICA LIGHTHOUSE STEPS DIE_AT PAUSE
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import nn
from torchft import Manager
from torchft.ddp import DistributedDataParallel
from torchft.local_sgd import DiLoCo, LocalSGD
from torchft.optim import OptimizerWrapper
from torchft.process_group import ProcessGroupGloo

from collectives.integrations.torchft import CompressedProcessGroup, attach

TIMEOUT = timedelta(seconds=20)
SCHEME = "topk(0.05) | rice | raw"


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))


def make_store() -> Any:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return torch.distributed.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)


class DyingGroup(CompressedProcessGroup):
    """Group whose process ends in an exchange."""

    dies: Callable[[], bool]

    def _exchange(self, *arguments: Any) -> None:
        if self.dies():
            os._exit(1)
        super()._exchange(*arguments)


class Log:
    """What happened to the residuals at the end of each step."""

    def __init__(self, pg: CompressedProcessGroup) -> None:
        self.pg = pg
        self.settle = pg.settle
        self.began_empty = not self.residuals()
        self.committed = self.dropped = 0
        self.is_right = True
        pg.settle = self  # type: ignore[method-assign]

    def residuals(self) -> dict[str, bytes]:
        return {key: x.tobytes() for key, x in self.pg.state_dict().items() if key.startswith("residual/")}

    def __call__(self, *, commit: bool) -> None:
        before = self.residuals()
        parts = self.pg._step.parts
        has_exchanged = parts is not None and parts.is_exchanged  # the first parameters are sent dense
        self.settle(commit=commit)
        after = self.residuals()
        if commit:
            self.committed += 1
            self.is_right &= (after != before) or not has_exchanged
        else:
            self.dropped += 1
            self.is_right &= after == before


def main(mode: str, replica: int, lighthouse: str, steps: int, die_at: int, pause: float) -> None:
    torch.set_num_threads(1)
    model, store = make_model(), make_store()
    base = ProcessGroupGloo(timeout=TIMEOUT)
    pg = DyingGroup(base, SCHEME)
    log = Log(pg)
    manager = Manager(
        pg=pg,
        load_state_dict=model.load_state_dict,
        state_dict=model.state_dict,
        min_replica_size=1,
        use_async_quorum=mode == "ddp",
        replica_id=f"replica{replica}",
        store_addr="127.0.0.1",
        store_port=store.port,
        rank=0,
        world_size=1,
        lighthouse_addr=lighthouse,
        timeout=TIMEOUT,
        init_sync=False,
    )
    attach(
        manager,
        pg,
        fragments=2 if mode == "diloco" else 1,
        values="parameters" if mode == "localsgd" else "gradients",
    )
    pg.dies = lambda: manager.current_step() == die_at
    generator = torch.Generator().manual_seed(5 + replica)
    teacher = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
    losses: list[float] = []

    def compute(net: Any) -> torch.Tensor:
        x = torch.randn(64, 32, generator=generator)
        loss: torch.Tensor = nn.functional.cross_entropy(net(x), (x @ teacher).argmax(1))
        losses.append(loss.item())
        time.sleep(pause)
        return loss

    if mode == "ddp":
        net = DistributedDataParallel(manager, model)
        optimizer = OptimizerWrapper(manager, torch.optim.SGD(model.parameters(), lr=0.3))
        while manager.current_step() < steps:
            optimizer.zero_grad()
            compute(net).backward()
            optimizer.step()
    else:
        inner = torch.optim.AdamW(model.parameters(), lr=3e-3)
        fragments: list[nn.Module] = [model[0], model[2]]
        outer = [torch.optim.SGD(part.parameters(), lr=1.0) for part in fragments]
        sync = (
            LocalSGD(manager, model, inner, sync_every=5)
            if mode == "localsgd"
            else DiLoCo(manager, fragments, inner, outer, sync_every=10, fragment_sync_delay=2)
        )
        with sync:
            while manager.current_step() < steps:
                inner.zero_grad()
                compute(model).backward()
                inner.step()
    common: list[torch.Tensor] = list(model.parameters())
    if mode == "diloco":  # between two exchanges, the parameters themselves are local
        common = [x for one in sync._fragments for x in one.original_parameters.values()]
    flat = np.concatenate([x.detach().numpy().ravel() for x in common])
    print(
        json.dumps(
            {
                "hash": hashlib.sha256(flat.tobytes()).hexdigest(),
                "losses": [float(np.mean(losses[:5])), float(np.mean(losses[-5:]))],
                "bytes": pg.bytes_sent,
                "dense": 4 * flat.size * steps // (2 if mode == "diloco" else 1),
                "began_empty": log.began_empty,
                "committed": log.committed,
                "dropped": log.dropped,
                "is_right": log.is_right,
                "participants": manager.num_participants(),
                "names": sorted(key for key in pg.state_dict() if key.startswith("residual/")),
            }
        ),
        flush=True,
    )
    manager.shutdown(wait=False)
    os._exit(0)


if __name__ == "__main__":
    mode, replica, lighthouse, steps = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    main(mode, replica, lighthouse, steps, int(sys.argv[5]), float(sys.argv[6]))
