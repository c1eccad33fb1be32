"""Roles of the soak: a writer and a reader, each in a process that may be killed at any time."""

from __future__ import annotations

import mmap
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import collectives as co
from tests.collectives.feed.soak.ledger import Ledger, State, digest_of
from tests.collectives.feed.soak.weather import Interrupted, make_options
from tests.collectives.feed.weights import start_training

REFUSED = 3
"""Exit code of a writer that another one has replaced."""


@dataclass(frozen=True)
class Place:
    """Folder of a soak.

    Attributes:
        folder: with the store, the ledger and the checkpoints.
        seed: of all chances.
        port: of the S3 server that has the store as a bucket; None for a folder.
    """

    folder: Path
    seed: int
    port: int | None = None

    @property
    def url(self) -> str:
        """Folder of the runs, behind the faults."""
        return f"soaked://{self.folder / 'store'}" if self.port is None else "s3://store"

    @property
    def feed(self) -> Path:
        """Folder of the feed."""
        return self.folder / "store" / "run" / "feed"

    def options(self, chance: random.Random, *, calm: bool) -> dict[str, Any]:
        """Return the arguments of a Publisher or a Subscriber."""
        return make_options(chance, calm=calm, port=self.port)

    @property
    def end(self) -> Path:
        """File that ends the readers."""
        return self.folder / "end"

    def ledger(self, who: str) -> Ledger:
        """Return the ledger of a process."""
        return Ledger(self.folder / "ledger.jsonl", who)


def write(place: Place, life: int, versions: int, *, calm: bool = False) -> int:
    """Publish until a version is reached, from a checkpoint of any age; return the exit code."""
    chance = random.Random(f"{place.seed} writer {life}")
    ledger, training = place.ledger(f"writer {life}"), start_training()
    training.rng = np.random.default_rng([place.seed, life])
    checkpoints = sorted(place.folder.glob("*.npz"))
    if checkpoints:
        with np.load(chance.choice(checkpoints)) as saved:
            for name, bits in saved.items():
                training.state[name].view(bits.dtype)[...] = bits
    publisher: co.Publisher | None = None
    while True:
        training.step()
        digest = digest_of(training.state)
        ledger.write("intends", digest=digest, part=digest_of(take_part(training.state)))
        try:
            publisher = publisher or co.Publisher(
                place.url,
                "run",
                base=chance.choice(("read", "unread", "slices")),
                skips=chance.choice(((), (4,), (8, 64))),
                keep=chance.choice((1, 8, 64)),
                anchor=calm or chance.random() < 0.5,
                **place.options(chance, calm=calm),
            )
            version = publisher.publish(training.state)
        except Interrupted:
            ledger.write("interrupted")
            continue
        except co.CollectiveError as error:
            ledger.write("refused", reason=error.reason, text=str(error))
            if error.reason in ("writer", "transport", "refused"):
                return REFUSED
            raise
        ledger.write("published", version=version, digest=digest)
        if version % 7 == 0:
            whole = place.folder / f"{version:06d}.npz"
            np.savez(whole.with_suffix(".part"), **bits_of(training.state))
            whole.with_suffix(".part.npz").rename(whole)
        if version >= versions:
            return 0


def bits_of(state: State) -> State:
    """Return the state as unsigned integers, which files of NumPy take."""
    return {name: x.view(f"u{x.dtype.itemsize}") for name, x in state.items()}


SLICES: dict[str, Any] = {
    "embedding": (slice(None), slice(20, None)),
    "layer.weight": slice(24, None),
    "layer.bias": (),
    "scale": (),
}


def take_part(state: State) -> State:
    """Return what a reader of slices has of a state."""
    return {name: np.ascontiguousarray(x[SLICES[name]]) for name, x in state.items()}


def has_slices(number: int) -> bool:
    """Return whether a reader has slices."""
    return number % 3 == 2


def share_state(number: int) -> State:
    """Make a reader's state, whose memory outlives the processes that write into it."""
    state: State = {}
    whole = start_training().state
    for name, x in (take_part(whole) if has_slices(number) else whole).items():
        memory = np.frombuffer(mmap.mmap(-1, x.nbytes), x.dtype).reshape(x.shape)
        memory[...] = 0
        state[name] = memory
    return state


def read(place: Place, number: int, life: int, state: State) -> int:
    """Follow the feed with a state that an earlier life has left, until the end; return the exit code."""
    chance = random.Random(f"{place.seed} reader {number} {life}")
    ledger = place.ledger(f"reader {number}")
    slices = SLICES if has_slices(number) else None
    reader, changed = _subscribe(place, chance, slices, calm=False), True
    while True:
        is_last = place.end.exists()
        if is_last:
            reader = _subscribe(place, chance, slices, calm=True)
        if chance.random() < 0.05 and not is_last:
            x = state[chance.choice(sorted(state))].reshape(-1)
            x[chance.randrange(x.size)] += 1
            changed = True
        try:
            version = follow(reader, state, chance)
        except Interrupted:
            ledger.write("interrupted")
            continue
        except co.CollectiveError as error:
            ledger.write(
                "error", reason=error.reason, text=str(error), digest=digest_of(state), changed=changed
            )
            if is_last:
                raise
            continue
        if version is not None:
            ledger.write("has", version=version, digest=digest_of(state), life=life)
            changed = False
            if is_last:
                return 0


def follow(reader: co.Subscriber, state: State, chance: random.Random) -> int | None:
    """Bring a state to the newest version in one of several ways, and return its number.

    Returns None if only a newer version was wanted, and there is none. The state is not read then.
    """
    timeout = chance.choice((0.0, 0.2))
    if chance.random() < 0.5:
        return reader.update(state, timeout=timeout)
    update = reader.prepare(state, timeout=timeout, newer=chance.random() < 0.5)
    if update is None:
        return None
    engine = {name: x.copy() for name, x in state.items()}
    if chance.random() < 0.5:
        engine |= update.tensors()
    else:
        for name, indices, values in update.changes():
            engine[name].reshape(-1)[indices] = values
    version = update.commit()
    assert digest_of(engine) == digest_of(state), "the engine has other weights than the state"
    return version


def _subscribe(place: Place, chance: random.Random, slices: Any, *, calm: bool) -> co.Subscriber:
    name = chance.choice((None, "reader"))
    options = place.options(chance, calm=calm)
    return co.Subscriber(place.url, "run", poll=0.02, name=name, slices=slices, **options)


def warm_up(folder: Path) -> None:
    """Load all that the roles use, so that their processes begin at once."""
    for base in ("read", "unread", "slices"):
        training, state, part = start_training(), dict[str, Any](), dict[str, Any]()
        publisher = co.Publisher(str(folder / "warm-up"), base, base=base)
        reader = co.Subscriber(str(folder / "warm-up"), base)
        sliced = co.Subscriber(str(folder / "warm-up"), base, slices=SLICES)
        for _ in range(2):
            training.publish(publisher)
            reader.update(state)
            if base == "slices":
                sliced.update(part)
            training.step()


def start(role: Any, *arguments: Any, **options: Any) -> int:
    """Run a role in a fork of this process, and return its id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        code = role(*arguments, **options)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)
