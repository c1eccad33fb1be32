"""Numbers of a Compressor's last step, which are computed when a program asks for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.compressor.holder import StateHolder
from wirecodec.compressor.memory import all_to_host
from wirecodec.limits import UNLIMITED
from wirecodec.pipeline import decode_many
from wirecodec.settings.feedback import ErrorFeedback, Feedback, FeedbackLike, list_feedback
from wirecodec.settings.schedule import Schedule, WarmUp
from wirecodec.sparse import SparseTensor


@dataclass(frozen=True)
class _Sums:
    """Sums over the tensors of a step.

    Attributes:
        elements: of the tensors.
        sent: of these, in containers.
        lost: squared norm of the parts that were not sent, if residuals have them.
        whole: squared norm of the tensors before the step's selection, as ``lost``.
    """

    elements: int
    sent: int
    lost: float
    whole: float

    @property
    def error(self) -> float:
        """Return the relative error."""
        return math.sqrt(max(self.lost, 0.0) / self.whole) if self.whole else 0.0


def describe_step(
    holder: StateHolder, feedback: FeedbackLike, schedule: Schedule | None, *, named: bool
) -> dict[str, float] | None:
    """Return the numbers of the last step, as ``Compressor.last``; None if none is known.

    ``named`` tells whether containers have the names by which residuals are found.
    """
    state = holder.state
    if not holder.taken or holder.taken_residuals is not state.residuals:
        return None
    residuals = all_to_host(state.residuals)
    numbers: dict[str, float] = {
        "step": state.step,
        "bytes": sum(nbytes for nbytes, _ in holder.taken),
        "residual": math.sqrt(sum(map(_square, residuals.values()))),
        "warm_up": min(state.step / schedule.steps, 1.0) if isinstance(schedule, WarmUp) else 1.0,
    }
    blobs = [blob for _, blob in holder.taken if blob is not None]
    if len(blobs) == len(holder.taken):
        sums = _add_up(blobs, residuals)
        numbers["bits"] = 8 * numbers["bytes"] / max(sums.elements, 1)
        numbers["kept"] = sums.sent / max(sums.elements, 1)
        if named and all(map(_keeps_rest, list_feedback(feedback))):
            numbers["error"] = sums.error
    return numbers


def _keeps_rest(rule: Feedback | None) -> bool:
    """Return whether the residual after a step is all that was not sent."""
    return rule is not None and not (isinstance(rule, ErrorFeedback) and rule.beta < 1)


def _add_up(blobs: Sequence[Bytes], residuals: Mapping[str, Array]) -> _Sums:
    """Decode the containers of a step, and compare what they send with the residuals after it."""
    elements = sent = 0
    lost = whole = 0.0
    for blob in blobs:
        for name, tensor in decode_many(blob, limits=UNLIMITED).items():
            elements, sent = elements + tensor.size, sent + tensor.nnz
            rest = residuals.get(name)
            left = 0.0 if rest is None else _square(rest)
            lost, whole = lost + left, whole + left + _square_of_sum(tensor, rest)
    return _Sums(elements, sent, lost, whole)


def _square_of_sum(tensor: SparseTensor, rest: Array | None) -> float:
    """Return by how much the squared norm of the rest grows when the sent values are added to it."""
    values = np.asarray(tensor.values).astype(np.float64)
    if rest is None:
        return float(values @ values)
    return float(values @ (values + 2.0 * (rest if tensor.is_full else rest[tensor.indices])))


def _square(x: Any) -> float:
    """Return the squared norm of an array."""
    return float(np.linalg.norm(x)) ** 2
