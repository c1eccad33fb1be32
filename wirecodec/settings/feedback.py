"""Feedback: the part of a gradient that was not sent is added to a later one, plainly or with momentum.

The arithmetic is in ``residual`` and ``momentum`` of ``wirecodec.cpu`` and ``wirecodec.gpu``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from wirecodec.errors import EncodeError
from wirecodec.settings.rules import Key, find_matches
from wirecodec.validation import as_flag, as_ratio, as_real, set_fields


@dataclass(frozen=True)
class ErrorFeedback:
    """Error feedback with an optional low-pass filter and an optional decay.

    With residual m, gradient g and x = decay * m + g, a part of x is sent, and the next residual is

        (1 - beta) * decay * m + beta * (x - sent)

    With beta 1, everything that was not sent is kept. A smaller beta is a low-pass filter (ScaleCom,
    Algorithm 1) for large batches. A smaller decay forgets old parts (SparseLoCo uses 0.95).

    Args:
        beta: weight of the newest step, above 0 and at most 1.
        decay: factor of the old residual, above 0 and at most 1.

    Raises:
        EncodeError: if a parameter is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> compressor = wc.Compressor("topk(k=1) | rice | raw", feedback=wc.ErrorFeedback(beta=1.0))
        >>> _ = compressor.compress({"w": np.array([3, 1, 2], np.float32)})
        >>> compressor.residual("w")
        array([0., 1., 2.], dtype=float32)
    """

    beta: float = 1.0
    decay: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            set_fields(self, **{name: as_ratio(value, f"feedback: {name}")})

    def sum_dtype(self, gradient: np.dtype[Any], residual: np.dtype[Any] | None) -> np.dtype[Any]:
        """Return the type of gradient + residual: the wider of both, and at least float32."""
        dtype: np.dtype[Any] = np.result_type(gradient, np.float32)
        return dtype if residual is None else np.result_type(dtype, residual)


@dataclass(frozen=True)
class MomentumCorrection:
    """Momentum that accumulates before selection, so that a delayed gradient arrives with its momentum.

    Two arrays per tensor: momentum u and accumulated velocity v. With gradient g, a step computes

        u = momentum * u + g        v = v + u                       (v + momentum * u + g with nesterov)

    and selects from v. Then v loses what was sent, and with masking u becomes 0 at the elements that were
    sent. The mean of what all ranks sent is the step's direction: the optimizer after it must have no
    momentum of its own, or the momentum counts twice. ``collectives.check_optimizer`` finds that out.

    The authors' code has Nesterov's form as w = momentum * (w + g), v = v + w + g, which is the same with
    w = momentum * u. Its optimizer keeps a momentum of the weight decay alone, which plain SGD has not.

    Nothing is masked if a tensor's scheme sends every element losslessly. Such a tensor trains with ordinary
    momentum. Nothing is masked under a transform either, because coefficients are sent, not elements.

    Args:
        momentum: factor of the old momentum, from 0 to below 1.
        nesterov: True for Nesterov momentum.
        masking: True to stop the momentum of elements that were sent.

    Raises:
        EncodeError: if a parameter is out of range.

    Source:
        Lin et al., 2018, Deep Gradient Compression (arXiv 1712.01887), sections 3.2 and 3.3 and appendix B.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> compressor = wc.Compressor("topk(k=1) | rice | raw", feedback=wc.MomentumCorrection(0.5))
        >>> for _ in range(2):
        ...     sent = compressor.decompress(compressor.compress({"w": np.array([3, 1], "f4")}))
        >>> compressor.residual("w"), compressor.momentum("w")
        (array([0. , 2.5], dtype=float32), array([0. , 1.5], dtype=float32))
    """

    momentum: float = 0.9
    nesterov: bool = False
    masking: bool = True

    def __post_init__(self) -> None:
        set_fields(
            self,
            momentum=as_real(self.momentum, "momentum correction: momentum"),
            nesterov=as_flag(self.nesterov, "momentum correction: nesterov"),
            masking=as_flag(self.masking, "momentum correction: masking"),
        )
        if not 0 <= self.momentum < 1:
            raise EncodeError(
                f"momentum correction: momentum is {self.momentum!r}; it must be at least 0 and below 1"
            )


Feedback: TypeAlias = ErrorFeedback | MomentumCorrection
FeedbackLike: TypeAlias = "Feedback | Mapping[Key, Feedback | None] | None"


def as_feedback(feedback: Any) -> FeedbackLike:
    """Check the feedback of a Compressor: one for all tensors, None, or {key: feedback}."""
    if isinstance(feedback, Mapping):
        return {key: _check(one) for key, one in feedback.items()}
    return _check(feedback)


def _check(feedback: Any) -> Feedback | None:
    """Return a feedback or None; raise EncodeError for anything else."""
    if feedback is None or isinstance(feedback, ErrorFeedback | MomentumCorrection):
        return feedback
    raise EncodeError(
        f"feedback is {feedback!r}; it must be wc.ErrorFeedback(), wc.MomentumCorrection(), None, or"
        " a mapping of keys to these"
    )


def feedback_for_all(tensors: Mapping[str, Any], feedback: FeedbackLike) -> dict[str, Feedback | None]:
    """Return the feedback of each of {name: tensor}: the one for all, or that of the first key that matches.

    Raises EncodeError if none matches.
    """
    if not isinstance(feedback, Mapping):
        return dict.fromkeys(tensors, feedback)
    return find_matches(tensors, feedback, "feedback")


def list_feedback(feedback: FeedbackLike) -> list[Feedback | None]:
    """List the feedbacks of all keys."""
    return list(feedback.values()) if isinstance(feedback, Mapping) else [feedback]
