"""One replica that trains with co.LocalUpdates; torchft decides who takes part. Prints a line of JSON.

python -m tests.integrations.torchft_local REPLICA LIGHTHOUSE STEPS DIE_AT
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from typing import Any

import numpy as np
import torch
from torch import nn
from torchft import Manager
from torchft.process_group import ProcessGroupGloo

import collectives as co
import wirecodec as wc
from tests.integrations.torchft_run import TIMEOUT, make_model, make_store

EVERY, PAUSE = 5, 0.01


def main(replica: int, lighthouse: str, steps: int, die_at: int) -> None:
    torch.set_num_threads(1)
    model, store = make_model(), make_store()
    pg = ProcessGroupGloo(timeout=TIMEOUT)
    manager = Manager(
        pg=pg,
        load_state_dict=lambda _: None,  # synchronize() brings a replica up to date
        state_dict=dict,
        min_replica_size=1,
        use_async_quorum=False,
        replica_id=f"replica{replica}",
        store_addr="127.0.0.1",
        store_port=store.port,
        rank=0,
        world_size=1,
        lighthouse_addr=lighthouse,
        timeout=TIMEOUT,
        init_sync=False,
    )
    inner = torch.optim.AdamW(model.parameters(), lr=3e-3)
    compressor = wc.Compressor("topk(0.05) | rice | raw", feedback=wc.ErrorFeedback())
    generator = torch.Generator().manual_seed(5 + replica)
    teacher = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
    losses: list[float] = []
    local: Any = None
    group: Any = None
    sizes, dropped = [], 0
    while manager.current_step() < steps:
        for _ in range(EVERY):
            inner.zero_grad()
            x = torch.randn(64, 32, generator=generator)
            loss = nn.functional.cross_entropy(model(x), (x @ teacher).argmax(1))
            loss.backward()
            inner.step()
            losses.append(loss.item())
            time.sleep(PAUSE)
        manager.start_quorum()
        if pg.parent is not group:  # torchft has replaced the group: a replica has gone, or joined
            group = pg.parent
            if local is None:
                local = co.LocalUpdates(
                    None, model.named_parameters(), compressor, group, EVERY, divide="senders"
                )
            else:
                local.rebind(group)
            local.synchronize()
        if manager.current_step() == die_at:
            os._exit(1)
        pending: Any = None
        try:
            pending = local.exchange(commit=False)
        except co.CollectiveError as error:
            manager.report_error(error)
        if manager.should_commit():
            pending.commit()
            sizes.append(manager.num_participants())
        else:
            dropped += 1
            if pending is not None:
                pending.rollback()
    local.revert()
    flat = np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])
    print(
        json.dumps(
            {
                "hash": hashlib.sha256(flat.tobytes()).hexdigest(),
                "losses": [float(np.mean(losses[:5])), float(np.mean(losses[-5:]))],
                "sizes": sizes,
                "dropped": dropped,
                "round": local.round,
            }
        ),
        flush=True,
    )
    manager.shutdown(wait=False)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
