"""Input and result of a Compressor's step, on the host (``cpu.step``) and on a GPU (``gpu.step``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from wirecodec.arrays import Array, Bytes
from wirecodec.index.raw import RawIndex
from wirecodec.prng import mix
from wirecodec.select.threshold import Threshold
from wirecodec.settings.feedback import ErrorFeedback, Feedback, MomentumCorrection
from wirecodec.settings.scheme import Scheme
from wirecodec.sparse import SparseTensor
from wirecodec.value.raw import Raw


@dataclass(frozen=True, eq=False)
class TensorJob:
    """Settings and state of one tensor in a step.

    Attributes:
        scheme: the tensor's scheme.
        feedback: rule of the next residual and momentum; None if neither is kept.
        residual: (size,), or None.
        state: the selector's state, or None.
        seed: seed of the selection.
        spare: memory for the next residual, or None.
        last: end of the last step's search on a GPU, or None.
        momentum: (size,), or None.
        spare_momentum: memory for the next momentum, or None.
        header: bytes of the container's header that count for this tensor, if its selector asks for them.
        weight: factor of its squared error in a group's budget.
    """

    scheme: Scheme
    feedback: Feedback | None
    residual: Any
    state: Any
    seed: int
    spare: Array | None = None
    last: Any = None
    momentum: Any = None
    spare_momentum: Array | None = None
    header: int = 0
    weight: float = 1.0

    def residual_rule(self, *, exact: bool) -> ErrorFeedback | None:
        """Return the rule of the residual, after momentum and decay; None if no residual is kept.

        A tensor that is sent whole and losslessly may have a momentum, and keeps no residual if the elements'
        type holds the sums (``exact``).
        """
        rule = self.feedback
        if rule is None or (exact and self.residual is None and self.scheme.sends_all):
            return None
        return ErrorFeedback(rule.beta) if isinstance(rule, ErrorFeedback) else _PLAIN

    def hold(self) -> TensorJob:
        """Return the job of a held tensor: nothing is sent, and its residual and selector do not change.

        The scheme is lossless, so no lossy scheme of other tensors can put this one into a shared entry.
        """
        return TensorJob(_NOTHING, None, None, None, self.seed)


@dataclass(frozen=True, eq=False)
class TensorJobs(Mapping[str, TensorJob]):
    """Settings and state of all tensors in a step, in the order of their keys; each job is made on demand.

    Attributes:
        schemes: by name.
        rules: feedback by name; None, or no name, if neither residual nor momentum is kept.
        residuals, selectors, momenta: state by name; no name without one.
        seed: of all selections; a tensor's key is mixed in.
        header: bytes of the container's header that count for each tensor, if a selector asks for them.
        spares, spare_momenta: memory for the next residuals and momenta by name.
        groups: {name: number of its group}, for tensors that are selected together.
        lasts: ends of the last step's searches on a GPU by name.
        plans: plans of batches on a GPU, which a step adds to.
        thresholds: (n,) u64 in the order of the keys, of the last step's searches on the host, or None; a
            step overwrites them.
        weights: factors of the squared errors by name; 1 for the others.
    """

    schemes: Mapping[str, Scheme]
    rules: Mapping[str, Feedback | None]
    residuals: Mapping[str, Any]
    selectors: Mapping[str, Any]
    seed: int
    header: int = 0
    spares: Mapping[str, Array] = field(default_factory=dict)
    lasts: Mapping[str, Any] = field(default_factory=dict)
    thresholds: Array | None = None
    momenta: Mapping[str, Any] = field(default_factory=dict)
    spare_momenta: Mapping[str, Array] = field(default_factory=dict)
    groups: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    plans: dict[Any, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.schemes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.schemes)

    @cached_property
    def names(self) -> list[str]:
        """The tensors' names in the order of their keys."""
        return list(self.schemes)

    @cached_property
    def _keys(self) -> dict[str, int]:
        return {name: key for key, name in enumerate(self.schemes)}

    def __getitem__(self, name: str) -> TensorJob:
        rule = self.rules.get(name)
        return TensorJob(
            self.schemes[name],
            rule,
            self.residuals.get(name),
            self.selectors.get(name),
            mix(self.seed, self._keys[name]),
            self.spares.get(name),
            self.lasts.get(name),
            self.momenta.get(name) if isinstance(rule, MomentumCorrection) else None,
            self.spare_momenta.get(name),
            self.header,
            self.weights.get(name, 1.0),
        )


_PLAIN = ErrorFeedback()
_NOTHING = Scheme(Threshold(0), RawIndex(), Raw())


@dataclass(frozen=True, eq=False)
class StepInput:
    """Input of a step: all its tensors' settings and state.

    Attributes:
        jobs: settings and state by name, in the order of their keys.
        seed: seed of the codecs.
        names: True to store the names.
        fuse: number of elements up to which tensors share entries.
        hold_zeros: True to hold each tensor whose gradient is zero everywhere.
        clip: largest norm of this rank's gradients together; None for no limit.
    """

    jobs: TensorJobs
    seed: int
    names: bool
    fuse: int
    hold_zeros: bool = False
    clip: float | None = None


@dataclass(frozen=True, eq=False)
class StepResult:
    """Result of a step.

    Attributes:
        blob: the container, (n,) u8 on the tensors' device.
        blob_on_host: the same on the host.
        sent: {name: tensor as receivers decode it}, on the tensors' device; bfloat16 is on the host.
        residuals: {name: (size,)} on the tensors' device, for tensors that keep one.
        selectors: {name: state} for selectors that have one.
        momenta: {name: (size,)} on the tensors' device, for tensors that keep one.
    """

    blob: Bytes
    blob_on_host: Bytes
    sent: Mapping[str, SparseTensor]
    residuals: Mapping[str, Any]
    selectors: Mapping[str, Array]
    momenta: Mapping[str, Any] = field(default_factory=dict)
