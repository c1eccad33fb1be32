"""Faults of the soak: what one rank does wrong in a step, and what all ranks then raise."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import collectives as co
from collectives.errors import Nested
from tests.collectives.injector import OWN, Injected, Injector
from tests.soak import store_faults
from tests.soak.links import Link, StoreLink, World

__all__ = ["FAULTS", "Fault", "Scene"]


@dataclass(frozen=True)
class Scene:
    """What a fault of this rank needs.

    Attributes:
        world: links of the rank.
        link: of the step.
        draw: random numbers of this rank.
        seconds: that such a step took before.
        counts: {whether lines: number of calls, or lines, of such a step}; 0 if it is not known.
        places: where exceptions were raised.
    """

    world: World
    link: Link
    draw: random.Random
    seconds: float
    counts: MutableMapping[bool, int]
    places: list[str]


@dataclass(frozen=True)
class Fault:
    """Fault of one rank.

    Attributes:
        change: changes the gradients of that rank, in place.
        prepare: is called on that rank before any rank begins the step.
        around: context in which that rank takes the step; if it is taken again, without this.
        reasons: of the CollectiveError on all ranks; empty if the step counts.
        breaks: whether the step may break off on that rank alone, by an exception of its own.
        fits: whether it is a fault of a link.
    """

    change: Callable[[dict[str, Any]], None] = lambda gradients: None
    prepare: Callable[[Scene], None] | None = None
    around: Callable[[Scene], Any] | None = None
    reasons: tuple[str, ...] = ()
    breaks: bool = False
    fits: Callable[[Link], bool] = lambda link: True

    @property
    def is_of_values(self) -> bool:
        """Whether the tensors keep their shapes and types, as those of parameters do."""
        return self.reasons in ((), ("value",))


def _set_first(value: float) -> Callable[[dict[str, Any]], None]:
    def change(gradients: dict[str, Any]) -> None:
        name = min(gradients)
        gradients[name] = gradients[name].copy()
        gradients[name].reshape(-1)[:1] = value

    return change


def _reshape(gradients: dict[str, Any]) -> None:
    name = min(gradients)
    gradients[name] = np.zeros(gradients[name].size + 1, gradients[name].dtype)


@contextmanager
def _sleep(scene: Scene) -> Iterator[None]:
    time.sleep(0.1)
    yield


@contextmanager
def _stop(scene: Scene) -> Iterator[None]:
    """Stop this process for a moment at some time from now on."""
    pid = os.getpid()
    script = f"sleep 0.0{pid % 9}; kill -STOP {pid}; sleep 0.2; kill -CONT {pid}"
    helper = subprocess.Popen(["/bin/sh", "-c", script])
    try:
        yield
    finally:
        helper.wait()


def _inject(*, lines: bool) -> Callable[[Scene], Any]:
    """Return a context that raises at a random call, or line, of the library; the first one only counts."""

    @contextmanager
    def around(scene: Scene) -> Iterator[None]:
        count = scene.counts.get(lines, 0)
        injector = Injector(OWN, scene.draw.randint(1, count) if count else 0, lines=lines)
        try:
            with injector.active():
                yield
        finally:
            if not injector.place:
                scene.counts[lines] = injector.calls
            scene.places.append(injector.place)

    return around


@contextmanager
def _interrupt(scene: Scene) -> Iterator[None]:
    """Interrupt the step by a signal at a random moment."""
    is_armed = True

    def ring(*_: object) -> None:
        if is_armed:
            raise Injected("signal")

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, scene.draw.uniform(1e-6, 1.2 * scene.seconds))
        yield
    finally:
        is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _nest(scene: Scene) -> Iterator[None]:
    """Make calls inside the call: while a channel waits, and before requests to a store."""

    def call() -> bool:
        try:
            co.allreduce(scene.link.comm, np.ones(4, np.float32))
        except Nested:
            return scene.draw.random() < 0.5
        raise AssertionError("a call inside another one was made")

    def ask(operation: str, path: str) -> None:
        call()

    faults = scene.world.faults
    for channel in scene.link.channels():
        channel.meanwhile = call
    faults.hook = ask
    try:
        yield
    finally:
        faults.hook = None
        for channel in scene.link.channels():
            channel.meanwhile = None


def _of_store(function: Callable[..., Any]) -> Callable[[Scene], Any]:
    """Return a fault that gets the link to a store in place of the scene."""

    def call(scene: Scene) -> Any:
        assert isinstance(scene.link, StoreLink)
        return function(scene.link, scene.draw, scene.world.size)

    return call


def _is_store(link: Link) -> bool:
    return isinstance(link, StoreLink)


class _Exhausted:
    """Tensor that cannot be described."""

    @property
    def shape(self) -> tuple[int, ...]:
        raise MemoryError("injected")


FAULTS: dict[str, Fault] = {
    "none": Fault(),
    "NaN": Fault(_set_first(np.nan), reasons=("value",)),
    "Inf": Fault(_set_first(np.inf), reasons=("value",)),
    "shape": Fault(_reshape, reasons=("shape", "encode")),
    "no array": Fault(
        lambda gradients: gradients.update({min(gradients): object()}), reasons=("encode", "argument")
    ),
    "late": Fault(around=_sleep),
    "stopped": Fault(around=_stop),
    "no memory": Fault(
        lambda gradients: gradients.update({min(gradients): _Exhausted()}), reasons=("encode",)
    ),
    "exception at a call": Fault(around=_inject(lines=False), breaks=True),
    "exception at a line": Fault(around=_inject(lines=True), breaks=True),
    "interrupt": Fault(around=_interrupt, breaks=True),
    "nested": Fault(around=_nest),
    "garbage": Fault(prepare=_of_store(store_faults.plant), fits=_is_store),
    "rewritten": Fault(around=_of_store(store_faults.rewrite), fits=_is_store),
    "full disk": Fault(around=_of_store(store_faults.fill), fits=_is_store),
    "requests fail": Fault(around=_of_store(store_faults.fail), fits=_is_store),
    "denied": Fault(around=_of_store(store_faults.deny), breaks=True, fits=_is_store),
    "fork": Fault(around=_of_store(store_faults.fork), fits=_is_store),
}
