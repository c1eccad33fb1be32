"""A rollout of a run: it samples with the weights that it has, and a thread fetches newer ones.

An update is written between two tokens, so no token is sampled with a mixture.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator

import torch

from benchmarks.feed.exchange import Exchange, read_arguments
from benchmarks.feed.methods import PATIENCE, Reader
from benchmarks.feed.settings import Settings
from benchmarks.patches.training import Model, draw, read_text, sample
from wirecodec.interop import read_tensors
from wirecodec.patch.apply import digest_state

__all__ = ["main"]


def main() -> None:
    """Sample until the last version has been served; write the time of each update."""
    torch.set_num_threads(1)
    exchange, (number,) = read_arguments()
    _run(exchange, int(number))


def _run(exchange: Exchange, number: int) -> None:
    settings = exchange.settings
    model = Model(settings.plan).to(torch.bfloat16).requires_grad_(requires_grad=False)
    reader = exchange.method.read(exchange.open_store(), model, settings.poll)
    arriving = _Arriving(reader)
    first, _ = arriving.take(PATIENCE) or (-1, 0.0)
    if first:
        raise TimeoutError("version 0 has not arrived")
    exchange.write(f"ready-{number}", True)
    updates, version, tokens, known = [], 0, 0, reader.traffic()
    for spent in _sample(model, settings, number):
        tokens += 1
        taken = arriving.take(settings.idle * spent)
        if taken is None:
            continue
        at, now = time.monotonic(), reader.traffic()
        version, pause = taken
        updates.append((version, at, pause, now[0] - known[0], now[1] - known[1], tokens))
        if version == settings.steps:
            break
        tokens, known = 0, now
    exchange.write(f"rollout-{number}", {"updates": updates, "digest": digest_state(read_tensors(model))})


class _Arriving:
    """Updates that a thread prepares, one after another; each begins when the one before is written."""

    def __init__(self, reader: Reader) -> None:
        self._prepared: queue.SimpleQueue[Callable[[], int] | BaseException] = queue.SimpleQueue()
        self._wanted: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._wanted.put(None)
        threading.Thread(target=self._fetch, args=(reader,), daemon=True).start()

    def take(self, seconds: float) -> tuple[int, float] | None:
        """Write the next update if it arrives in time, and return its version and the seconds of writing."""
        try:
            commit = self._prepared.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(commit, BaseException):
            raise commit
        start = time.monotonic()
        version = commit()
        pause = time.monotonic() - start
        self._wanted.put(None)
        return version, pause

    def _fetch(self, reader: Reader) -> None:
        while True:
            self._wanted.get()
            try:
                self._prepared.put(reader.prepare())
            except BaseException as error:
                self._prepared.put(error)
                return


def _sample(model: torch.nn.Module, settings: Settings, number: int) -> Iterator[float]:
    """Sample completions of prompts without an end; yield the seconds that each token took."""
    plan, text, random = settings.plan, read_text(), torch.Generator().manual_seed(100 + number)
    while True:
        tokens = draw(text, plan.prompts, plan.window // 4, random)
        for _ in range(plan.completion):
            start = time.monotonic()
            tokens = sample(model, tokens, 1, random)
            yield time.monotonic() - start


if __name__ == "__main__":
    main()
