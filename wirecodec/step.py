"""Input and result of a Compressor's step, on the host (``cpu.step``) and on a GPU (``gpu.step``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wirecodec.arrays import Array, Bytes
from wirecodec.index.raw import RawIndex
from wirecodec.select.threshold import Threshold
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.settings.scheme import Scheme
from wirecodec.sparse import SparseTensor
from wirecodec.value.raw import Raw

__all__ = ["StepInput", "StepResult", "TensorJob"]


@dataclass(frozen=True, eq=False)
class TensorJob:
    """Settings and state of one tensor in a step.

    Attributes:
        scheme: the tensor's scheme.
        feedback: rule of the next residual; None if no residual is kept.
        residual: (size,), or None.
        state: the selector's state, or None.
        seed: seed of the selection.
        spare: memory for the next residual, or None.
        last: end of the last step's search on a GPU, or None.
    """

    scheme: Scheme
    feedback: ErrorFeedback | None
    residual: Any
    state: Any
    seed: int
    spare: Array | None = None
    last: Any = None

    def hold(self) -> TensorJob:
        """Return the job that sends nothing of a zero gradient, and leaves residual and selector as they are.

        Its scheme is exact, so an entry that is fused with others by a lossy scheme does not contain it.
        """
        return TensorJob(_NOTHING, None, None, None, self.seed)


_NOTHING = Scheme(Threshold(0), RawIndex(), Raw())


@dataclass(frozen=True, eq=False)
class StepInput:
    """Input of a step: all its tensors' settings and state.

    Attributes:
        jobs: {name: settings and state}, in the order of their keys.
        seed: seed of the codecs.
        names: True to store the names.
        fuse: number of elements up to which tensors share entries.
        hold_zeros: True to hold each tensor whose gradient is zero everywhere.
    """

    jobs: Mapping[str, TensorJob]
    seed: int
    names: bool
    fuse: int
    hold_zeros: bool = False


@dataclass(frozen=True, eq=False)
class StepResult:
    """Result of a step.

    Attributes:
        blob: the container, (n,) u8 on the tensors' device.
        blob_on_host: the same on the host.
        sent: {name: tensor as receivers decode it}, on the tensors' device; bfloat16 is on the host.
        residuals: {name: (size,)} on the tensors' device, for tensors that keep one.
        selectors: {name: state} for selectors that have one.
    """

    blob: Bytes
    blob_on_host: Bytes
    sent: Mapping[str, SparseTensor]
    residuals: Mapping[str, Any]
    selectors: Mapping[str, Array]
