"""The trainer of a run: steps of GRPO, and a version after each of them."""

from __future__ import annotations

import time

import torch

from benchmarks.feed.exchange import Exchange, read_arguments
from benchmarks.feed.states import load_start
from wirecodec.patch.apply import digest_state

__all__ = ["main"]


def main() -> None:
    """Train and publish as the arguments say; write the times and sizes of all versions."""
    torch.set_num_threads(1)
    exchange, _ = read_arguments()
    _run(exchange)


def _run(exchange: Exchange) -> None:
    settings = exchange.settings
    training = load_start(settings).go_on(settings)
    writer = exchange.method.write(exchange.open_store())
    versions, start = [], 0.0
    for step in range(settings.steps + 1):
        if step:
            time.sleep(max(0.0, start - time.monotonic()))
            start = time.monotonic() + settings.interval
            training.step()
        ended = time.monotonic()
        nbytes = writer.publish(training.cast())
        versions.append((step, ended, time.monotonic(), nbytes))
        if not step:
            for number in range(settings.rollouts):
                exchange.wait_for(f"ready-{number}")
    exchange.write("trainer", {"versions": versions, "digest": digest_state(training.cast())})


if __name__ == "__main__":
    main()
