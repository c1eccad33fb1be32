"""Which scheme pays on this machine and a given network: ``wirecodec advise``.

Every scheme is measured on the gradient (``rates``), what an exchange then takes is computed (``cost``), and
held against summing the gradient as it is. What is said is about time alone: not about accuracy, not about
error feedback, and not about exchanges that go on while the next gradient is computed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wirecodec import presets
from wirecodec.arrays import Array
from wirecodec.cli.cost_model import (
    Gradient,
    Network,
    Way,
    dense_way,
    fastest,
    least_ratio,
    paying,
    ways,
)
from wirecodec.cli.measurement import Done, Measured, Trial, measure, unwatched, zeros_for
from wirecodec.errors import EncodeError
from wirecodec.scheme import Scheme

__all__ = ["DEFAULTS", "Advice", "Verdict", "advise", "scheme_named"]

DEFAULTS = (
    "all | raw-index | raw(bfloat16)",
    "all | raw-index | offset-float",
    "all | raw-index | 3lc",
    *(
        f"topk({ratio}) | auto-index | {value}"
        for ratio in (0.1, 0.01, 0.001)
        for value in ("raw", "raw(bfloat16)", "qsgd")
    ),
    "topk(0.01) | auto-index | error-bounded",
    "sidco(0.01) | auto-index | qsgd",
    "sidco(0.001) | auto-index | qsgd",
    "rfft | topk(0.15) | auto-index | offset-float(bits=10)",
    *("sketchml", "skcompress", "deepreduce-qsgd-bf-p0"),
)
"""What is tried where nobody names a scheme: schemes, and presets."""


def scheme_named(text: str) -> Scheme:
    """A scheme from its string, or from a preset's, ``dgc(ratio=0.01)``; EncodeError where it is neither."""
    if "|" in text:
        return Scheme.parse(text)
    if text.partition("(")[0].strip() in presets.PRESETS:
        return presets.parse_preset(text)
    raise EncodeError(f"{text!r} is neither a preset nor a scheme, as 'topk(0.01) | rice | qsgd'")


@dataclass(frozen=True)
class Verdict:
    """One scheme over one network.

    Attributes:
        measured: the scheme on the gradient.
        ways: those to the sum.
        way: the fastest of them here.
        seconds: of an exchange.
        speed_up: over the dense all-reduce.
        least_ratio: above which a scheme of these times would pay here; inf where none would.
        spans: of bandwidths at which it pays, as ``cost.paying`` has them.
    """

    measured: Measured
    ways: tuple[Way, ...]
    way: Way
    seconds: float
    speed_up: float
    least_ratio: float
    spans: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, measured: Measured, gradient: Gradient, network: Network) -> Verdict:
        """From what was measured."""
        dense, found = dense_way(gradient, network.ranks), ways(measured.stages, gradient, network.ranks)
        way = fastest(found, network)
        return cls(
            measured,
            found,
            way,
            way.seconds(network),
            dense.seconds(network) / way.seconds(network),
            least_ratio(measured.stages, gradient, network),
            paying(found, dense, network.latency),
        )

    @property
    def pays(self) -> bool:
        """Whether it takes less time than the dense all-reduce."""
        return self.speed_up > 1


@dataclass(frozen=True)
class Advice:
    """A gradient, a network, and the schemes on both, the fastest first.

    Attributes:
        gradient, network: what was asked about.
        verdicts: one a scheme.
        refused: (scheme, why) of the default schemes that cannot carry the gradient.
    """

    gradient: Gradient
    network: Network
    verdicts: tuple[Verdict, ...]
    refused: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        gradient: Gradient,
        network: Network,
        measured: Iterable[Measured],
        refused: tuple[tuple[str, str], ...] = (),
    ) -> Advice:
        """From what was measured."""
        verdicts = [Verdict.of(each, gradient, network) for each in measured]
        return cls(gradient, network, tuple(sorted(verdicts, key=lambda v: v.seconds)), refused)

    def at(self, ranks: int) -> Advice:
        """The same over as many ranks."""
        network = dataclasses.replace(self.network, ranks=ranks)
        return Advice.of(self.gradient, network, (v.measured for v in self.verdicts), self.refused)

    @property
    def dense(self) -> Way:
        """What they are held against."""
        return dense_way(self.gradient, self.network.ranks)

    @property
    def ceiling(self) -> float:
        """The bandwidth at and above which none pays: 0 where none ever does, inf where one always does."""
        return max((high for verdict in self.verdicts for _, high in verdict.spans), default=0.0)


def advise(
    tensors: Mapping[str, Array],
    network: Network,
    schemes: Sequence[Scheme] | None = None,
    *,
    budget: float = 0.15,
    done: Done = unwatched,
) -> Advice:
    """Measure schemes on a gradient, and compute what they are worth over a network.

    Args:
        tensors: {name: array}, exchanged together.
        network: the ranks, and what is between them.
        schemes: to measure; None for the default ones, of which those are left out that cannot carry it.
        budget: seconds for each measurement, about.
        done: told the share of the work that is done.

    Raises EncodeError where a scheme, or all default ones, cannot carry the gradient.
    """
    trials, refused, sums = [], [], zeros_for(tensors)
    for scheme in map(scheme_named, DEFAULTS) if schemes is None else schemes:
        try:
            trials.append(Trial.of(tensors, scheme, sums))
        except EncodeError as error:
            if schemes is not None:
                raise
            refused.append((str(scheme), error))
    if not trials:
        raise refused[0][1] if refused else EncodeError("there is no scheme to measure")
    machine = measure(tensors, trials, budget=budget, done=done)
    why = tuple((scheme, str(error)) for scheme, error in refused)
    return Advice.of(machine.gradient, network, machine.measured, why)
