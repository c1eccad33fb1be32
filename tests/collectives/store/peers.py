"""Peers of a run in threads of this process, each with a StoreComm of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import collectives as co
import wirecodec as wc
from collectives.store.envelope import Envelope, hash_run
from tests.oracles import Array

SETTINGS: dict[str, Any] = {"quorum": 2, "deadline": 2.0, "poll": 0.01, "timeout": 20.0, "resume": True}


def make_comm(folder: Path | str, name: str, **settings: Any) -> Any:
    return co.StoreComm(str(folder), "run", name, **(SETTINGS | settings))


def run_of(folder: Path, slot: int = 0) -> bytes:
    """Return the hash of the run in a folder, which a StoreComm has begun."""
    found = Envelope.unpack((folder / "run" / f"settings.{slot:02d}").read_bytes())
    return hash_run("run", found.body)


def run_peers(functions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call functions at once; return their results, or raise the first error."""
    results: list[Any] = [None] * len(functions)
    errors: list[BaseException] = []

    def call(number: int) -> None:
        try:
            results[number] = functions[number]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(n,), daemon=True) for n in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(150)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a peer hangs"
    return results


def run_each(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Call a function for all items at once, as ``run_peers``."""
    return run_peers([partial(function, item) for item in items])


def gradient(*seed: int, size: int = 64) -> Array:
    return np.random.default_rng(seed).integers(-8, 9, size).astype(np.float32)


def make_local(comm: Any, w: Array, **settings: Any) -> co.LocalUpdates:
    compressor = wc.Compressor("topk(0.25) | rice | raw")
    return co.LocalUpdates(None, {"w": w}, compressor, comm, **({"every": 1} | settings))


def move(w: Array, *seed: int) -> Array:
    """Take a step of integers, and return it."""
    step = gradient(*seed, size=w.size).astype(w.dtype)
    w += step
    return step
