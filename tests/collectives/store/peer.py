"""Peer of a run as a process: trains by local updates, and writes a line of JSON per exchange.

It ends at the round whose number is in the file ``last``, when there is one.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from pathlib import Path

import numpy as np

import collectives as co
import wirecodec as wc

SIZE = 256


def main() -> None:
    settings = json.loads(sys.argv[1])
    name, leaves, last = settings["name"], settings["leaves"], Path(settings["last"])
    comm = co.StoreComm(
        settings["url"], "run", name, quorum=3, deadline=settings["deadline"], poll=0.02, timeout=15.0,
        publish_every=16, keep=2048, resume=True,
    )  # fmt: skip
    w = np.zeros(SIZE)
    compressor = wc.Compressor("topk(0.1) | rice | raw")
    local = co.LocalUpdates(None, {"w": w}, compressor, comm, every=2)
    local.synchronize()
    rng = np.random.default_rng(zlib.crc32(f"{name} {settings['life']}".encode()))
    total = np.zeros(SIZE)
    print(json.dumps({"joined": comm.round}), flush=True)
    while (comm.round or 0) < min(leaves, int(last.read_text()) if last.exists() else leaves):
        for _ in range(2):
            step = rng.integers(-9, 10, SIZE).astype(float)
            w += step
            total += step
            if (comm.round or 0) in settings["late"]:
                time.sleep(0.6 * settings["deadline"])
            try:
                local.step()
            except co.CollectiveError as error:
                print(json.dumps({"error": error.reason, "round": comm.round}), flush=True)
                if error.reason != "timeout":
                    raise
        time.sleep(settings["pace"])  # so that a process has started before the run is over
        assert comm.last is not None
        line = [comm.last.number, zlib.crc32(w.tobytes()), comm.last.members, comm.last.rank]
        print(json.dumps({"round": line}), flush=True)
    residual = compressor.residual("w")
    kept = (0 if residual is None else residual) + local._anchor.carried.get("w", 0)
    movement = local._anchor.state.parameters["w"] - w
    end = {"total": total.tolist(), "kept": (kept + movement).tolist(), "w": w.tolist()}
    traffic = comm.traffic
    cost = [traffic.sent, traffic.received, traffic.requests, traffic.repeated]
    print(json.dumps({"end": end, "traffic": cost}), flush=True)


main()
