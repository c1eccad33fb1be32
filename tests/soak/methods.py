"""Methods of the soak: objects with a state that average named arrays, and what each of them promises.

Most methods have the sum rule: all ranks' gradients so far are the delivered means times the number of ranks,
plus all residuals. Gradients are whole numbers, so that only a method's own roundings are left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import collectives as co
import wirecodec as wc
from collectives.sums.pieces import assign_ranges
from tests.soak.links import Connect, Link, StoreLink, World

__all__ = ["METHODS", "Method", "Track"]

Array: TypeAlias = npt.NDArray[Any]
Named: TypeAlias = dict[str, Array]


@dataclass(frozen=True)
class Method:
    """Way to average.

    Attributes:
        make: makes the object that keeps residuals, and gets the link.
        step: takes a step over a communicator; returns the means. It is called again if it broke off,
            with the gradients that the rank would have had without a fault.
        begin: is called once before a step.
        steps: number of steps that count.
        keep: returns a tensor's residual, or None.
        track: returns what came in and was delivered, if the object counts it; otherwise None.
        tolerance: relative error of the sum rule.
        has_sum_rule: whether means and residuals together are all gradients.
        connect: returns the link.
        is_saved: whether the object has a state that another one takes over.
        is_of_parameters: whether it moves parameters, whose shapes and types stay.
    """

    make: Callable[[Link], Any]
    step: Callable[[Any, Any, Named], Mapping[str, Any]]
    begin: Callable[[Any, Named], None] = lambda one, gradients: None
    steps: Callable[[Any], int] = lambda one: int(one.step)
    keep: Callable[[Any, str], Any] = lambda one, name: one.residual(name)
    track: Callable[[Any], Track | None] = lambda one: None
    tolerance: float = 1e-5
    has_sum_rule: bool = True
    connect: Connect = lambda world, run: world.channel
    is_saved: bool = True
    is_of_parameters: bool = False


@dataclass
class Track:
    """What came in and what was delivered on one rank, by tensor, in float64."""

    came_in: dict[str, Array] = field(default_factory=dict)
    delivered: dict[str, Array] = field(default_factory=dict)

    def add(self, gradients: Named, means: Mapping[str, Any], ranks: int) -> None:
        """Add a step that counts."""
        for name, x in gradients.items():
            wide = np.asarray(x, np.float64).reshape(-1)
            self.came_in[name] = self.came_in.get(name, 0) + wide
            mean = np.asarray(means[name], np.float64).reshape(-1)
            self.delivered[name] = self.delivered.get(name, 0) + ranks * mean


def _averaged(one: Any, comm: Any, gradients: Named) -> Mapping[str, Any]:
    means: Mapping[str, Any] = co.allreduce(comm, gradients, one)
    return means


def _averaged_by_itself(one: Any, comm: Any, gradients: Named) -> Mapping[str, Any]:
    means: Mapping[str, Any] = one.allreduce(comm, gradients)
    return means


def _compressed(
    scheme: Any, tolerance: float = 1e-5, call: Mapping[str, Any] | None = None, **settings: Any
) -> Method:
    options = dict(call or {})

    def step(one: Any, comm: Any, gradients: Named) -> Mapping[str, Any]:
        means: Mapping[str, Any] = co.allreduce(comm, gradients, one, **options)
        return means

    return Method(lambda link: wc.Compressor(scheme, **settings), step, tolerance=tolerance)


def _in_place(one: Any, comm: Any, gradients: Named) -> Mapping[str, Any]:
    """Write the means into the gradients."""
    out = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in gradients.items()}
    co.allreduce(comm, out, one, out=out)
    return out


def _gathered(one: Any, comm: Any, gradients: Named) -> Mapping[str, Any]:
    found = co.allgather(comm, gradients, one)
    return {
        name: sum(each[name].to_dense().astype("f8") for each in found) / len(found) for name in gradients
    }


class _Mover:
    """LocalUpdates of every step, whose movements are the gradients."""

    def __init__(self, link: Link) -> None:
        self.channel, self.compressor = link.comm, wc.Compressor("topk(0.3) | rice | raw")
        self.w: Named = {}
        self.local: co.LocalUpdates | None = None

    @property
    def step(self) -> int:
        return 0 if self.local is None else self.local.round

    def residual(self, name: str) -> Any:
        return self.compressor.residual(name)

    def move(self, gradients: Named) -> Mapping[str, Any]:
        if self.local is None:
            self.w = {name: np.zeros(x.shape) for name, x in gradients.items()}
            self.local = co.LocalUpdates(None, self.w, self.compressor, self.channel, every=1)
        before = {name: self.local.state_dict()[f"parameter/{name}"] for name in self.w}
        try:
            for name, x in gradients.items():
                self.w[name] -= x
            self.local.step()
        except BaseException:
            self.local.revert()  # the soak counts a failed step as no step
            raise
        return {name: before[name] - x for name, x in self.w.items()}


class _Ranged:
    """Method over sites, whose residuals are those of the ranges that the ranks exchange.

    Args:
        link: over which it averages.
        one: Compressor, CLTk or OkTopK.
        average: takes a step of it.
    """

    def __init__(self, link: Link, one: Any, average: Callable[..., Mapping[str, Any]]) -> None:
        self.local, self.one, self._average = link.comm.local, one, average
        self.specs: dict[str, Any] = {}

    @property
    def step(self) -> int:
        return int(self.one.step)

    def state_dict(self) -> dict[str, Any]:
        return {"specs": self.specs, "state": self.one.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.specs = state["specs"]
        self.one.load_state_dict(state["state"])

    def average(self, comm: co.Sites, gradients: Named) -> Mapping[str, Any]:
        means = self._average(self.one, comm, gradients)
        self.specs = {name: (x.shape, x.dtype) for name, x in gradients.items()}
        return means

    def residual(self, name: str) -> Any:
        """Return the residual in its place; that of a site's mean counts for all of its ranks."""
        own, (shape, _) = self.one.residual(name), self.specs[name]
        start, stop = assign_ranges(self.specs, self.local.size)[self.local.rank].get(name, (0, 0))
        whole = np.zeros(shape)
        if own is not None:
            whole[start:stop] = np.asarray(own, np.float64) * self.local.size
        return whole


class _Summer:
    """Compressor over a store, each of whose rounds sums the gradients of its members."""

    def __init__(self, link: Link) -> None:
        assert isinstance(link, StoreLink)
        self.ranks, self.comm, self.compressor = (
            link.ranks,
            link.comm,
            wc.Compressor("topk(0.2) | rice | raw"),
        )
        self.latest, self.rounds = -1, 0
        self.residual = self.compressor.residual
        self.state_dict, self.load_state_dict = self.compressor.state_dict, self.compressor.load_state_dict

    @property
    def step(self) -> int:
        """Number of rounds with members, of which there is at most one since the last look."""
        if (last := self.comm.last) is not None and last.number > self.latest:
            self.latest, self.rounds = last.number, self.rounds + bool(last.members)
        return self.rounds

    def sum(self, gradients: Named) -> Mapping[str, Any]:
        sums = co.allreduce(self.comm, gradients, self.compressor, op="sum")
        return {name: x.astype("f8") / self.ranks for name, x in sums.items()}


class _Peer:
    """LocalUpdates over a store, whose movements are the gradients."""

    def __init__(self, link: Link) -> None:
        self.comm, self.compressor = link.comm, wc.Compressor("topk(0.3) | rice | raw")
        self.w: Named = {}
        self.came_in: Named = {}
        self.spoiled: Named = {}  # parameters before a movement that is not finite
        self.local: co.LocalUpdates | None = None

    @property
    def step(self) -> int:
        return 0 if self.local is None else self.local.round

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Common parameters after the last round."""
        assert self.local is not None
        return self.local._anchor.state.parameters

    @property
    def track(self) -> Track:
        """What came in here, and what all ranks have delivered."""
        ranks = self.comm.rules.quorum
        return Track(self.came_in, {name: -ranks * x for name, x in self.parameters.items()})

    def open(self, sizes: Mapping[str, int]) -> co.LocalUpdates:
        """Make the parameters, which begin with 0."""
        self.w, self.came_in = ({name: np.zeros(size) for name, size in sizes.items()} for _ in range(2))
        self.local = co.LocalUpdates(None, self.w, self.compressor, self.comm, every=1)
        return self.local

    def move(self, gradients: Named) -> None:
        if self.local is None:
            self.open({name: x.size for name, x in gradients.items()}).synchronize()
        self.heal()
        self.next = self.comm.locate()
        self.is_again = False
        if not all(np.isfinite(x).all() for x in gradients.values()):
            self.spoiled = {name: x.copy() for name, x in self.w.items()}
        for name, x in gradients.items():
            self.w[name] -= x
            if not self.spoiled:
                self.came_in[name] += x

    def heal(self) -> None:
        """Drop a movement that is not finite."""
        for name, x in self.spoiled.items():
            self.w[name][:] = x
        self.spoiled = {}

    def exchange(self) -> Mapping[str, Any]:
        """Take part in the round once; if that broke off, learn its result, or take part if it has none."""
        assert self.local is not None
        if self.is_again:
            self.local.synchronize()
        if self.comm.round == self.next and not (self.is_again and self.spoiled):
            self.is_again = True
            self.local.exchange()
        return self.parameters

    def keep(self, name: str) -> Any:
        """Return what was not delivered: of the parameters, carried, or the residual."""
        assert self.local is not None
        self.heal()
        residual = self.compressor.residual(name)
        return self.local._anchor.measure_all([name])[name] + (0 if residual is None else residual)

    def state_dict(self) -> dict[str, Any]:
        assert self.local is not None
        self.heal()
        return {"w": self.w, "came in": self.came_in, "local": self.local.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Start again, and join the run."""
        local = self.open({name: x.size for name, x in state["w"].items()})
        for name, x in state["w"].items():
            self.w[name][:] = x
        self.came_in = state["came in"]
        local.load_state_dict(state["local"])
        local.synchronize()


def _over_sites(make: Callable[[], Any], average: Callable[..., Mapping[str, Any]]) -> Method:
    return Method(
        lambda link: _Ranged(link, make(), average),
        lambda one, comm, gradients: one.average(comm, gradients),
        connect=lambda world, run: world.sites,
    )


def _over_store(world: World, run: str) -> Link:
    return world.connect(run)


def _over_store_without_one(world: World, run: str) -> Link:
    return world.connect(run, missing=1)


METHODS: dict[str, Method] = {
    "topk": _compressed("topk(0.2) | rice | raw"),
    "topk dense": _compressed("topk(0.2) | rice | raw", call={"algorithm": "dense"}),
    "topk split": _compressed("topk(0.1) | auto-index | raw", call={"algorithm": "split-pairs"}),
    "topk bitmap": _compressed("topk(0.5) | bitmap | raw", call={"algorithm": "split-bitmap"}),
    "group": _compressed("topk(0.1) | rice | raw", scope="group"),
    "qsgd": _compressed("topk(0.2) | huffman | qsgd(bits=4)"),
    "budget": _compressed("budget(2) | rice | error-bounded", scope="group"),
    "bytes per step": _compressed(None, bytes_per_step=4000),
    "bfloat16": _compressed("topk(0.2) | rice | raw(bfloat16)"),
    "in place": Method(lambda link: wc.Compressor("topk(0.2) | rice | raw"), _in_place),
    "allgather": Method(lambda link: wc.Compressor("topk(0.2) | rice | raw"), _gathered),
    "momentum": Method(
        lambda link: wc.Compressor("topk(0.2) | rice | raw", feedback=wc.MomentumCorrection(0.5)),
        _averaged,
        has_sum_rule=False,
    ),
    "clt-k": Method(lambda link: co.CLTk(0.2), _averaged_by_itself),
    "gtop-k": Method(lambda link: co.GTopK(0.2), _averaged_by_itself),
    "ok-topk": Method(
        lambda link: co.OkTopK("topk(0.2) | rice | qsgd"),
        _averaged_by_itself,
    ),
    "local updates": Method(
        _Mover,
        lambda one, comm, gradients: one.move(gradients),
        is_saved=False,
        is_of_parameters=True,
    ),
    "sites": _over_sites(lambda: wc.Compressor("topk(0.2) | rice | raw"), _averaged),
    "sites, clt-k": _over_sites(lambda: co.CLTk(0.2), _averaged_by_itself),
    "sites, ok-topk": _over_sites(lambda: co.OkTopK("topk(0.2) | rice | qsgd"), _averaged_by_itself),
    "store": Method(_Summer, lambda one, comm, gradients: one.sum(gradients), connect=_over_store),
    "store, late": Method(
        _Summer, lambda one, comm, gradients: one.sum(gradients), connect=_over_store_without_one
    ),
    "store, local updates": Method(
        _Peer,
        lambda one, comm, gradients: one.exchange(),
        begin=lambda one, gradients: one.move(gradients),
        keep=lambda one, name: one.keep(name),
        track=lambda one: one.track,
        connect=_over_store,
        is_of_parameters=True,
    ),
}
