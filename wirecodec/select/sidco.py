"""``sidco``: a threshold from fits of a sparsity-inducing distribution, in stages (SIDCo, MLSys 2021).

Stage 1 fits the magnitudes that are not 0, each later stage the excess over the threshold before it, so that
the tail is fitted by the tail. The first stage keeps a share ``first``, the others what is left to the ratio.

*Retargeted*, the default: every stage aims at k from the count that the stage before it really kept, and
where the stages end, thresholds are interpolated between those measured, log-linear in the count, until the
count is within a quarter of ``tolerance`` of k; where even that fails, as among equal magnitudes, the k
largest are taken exactly. *Faithful*: the paper's stages and its controller of their number, with its
Algorithm 1 mended where it cannot be meant (signs, zeros, σ for σ², an average of Q counts of which one is
dropped, and a number of stages that never leaves 1 where one stage keeps too much).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError
from wirecodec.select import sidco_controller
from wirecodec.select.base import Selection
from wirecodec.select.sidco_magnitudes import Magnitudes
from wirecodec.select.sidco_search import DISTRIBUTIONS, MeasuredThreshold, ThresholdSearch
from wirecodec.select.sidco_sweeps import MagnitudeSource
from wirecodec.select.topk import fraction_count
from wirecodec.validation import as_integer, as_ratio, as_real, settle

__all__ = ["SIDCo", "SIDCoResult"]

_DEFAULT_STAGES = 3


@dataclass(frozen=True, eq=False)
class SIDCoResult:
    """How a selection came about.

    Attributes:
        selection: what ``select`` returns.
        threshold: every element of at least this magnitude was chosen; among equals, not all may be.
        trials: the thresholds measured, in order.
        stages: how many fits were made.
        reads: elements looked at, over the tensor's size; an exact selection counts as one read.
        exact: whether the fits did not lead there and the k largest were taken.
    """

    selection: Selection
    threshold: float
    trials: tuple[MeasuredThreshold, ...] = ()
    stages: int = 0
    reads: float = 0.0
    exact: bool = False


@dataclass(frozen=True)
class SIDCo:
    """About ``ratio`` of the elements, those beyond a fitted threshold; zeros never.

    Args:
        ratio: of the elements, above 0 and at most 1.
        sid: the distribution: "exponential", "gamma-gp" (gamma first, then generalised Pareto), or "gp".
        mode: "retargeted" or "faithful".
        stages: how many; 3 unless given. Faithful, how many to begin with: 1 unless given.
        first: what stage 1 keeps where there are several; with a ratio of at least that, there is one.
        window: faithful: after so many steps the number of stages is looked at again.
        tolerance: faithful: how far, as a share of k, the window's mean count may be off before it changes.
            Retargeted: four times how far the count may be off.
    """

    name: ClassVar[str] = "sidco"
    ratio: float
    sid: str = "exponential"
    mode: str = "retargeted"
    stages: int | None = None
    first: float = 0.25
    window: int = 5
    tolerance: float = 0.2

    def __post_init__(self) -> None:
        settle(
            self,
            ratio=as_ratio(self.ratio, "sidco: ratio"),
            first=as_real(self.first, "sidco: first"),
            window=as_integer(self.window, "sidco: window"),
            tolerance=as_real(self.tolerance, "sidco: tolerance"),
        )
        if self.stages is not None:
            settle(self, stages=as_integer(self.stages, "sidco: stages"))
        for what, valid in (("sid", tuple(DISTRIBUTIONS)), ("mode", ("retargeted", "faithful"))):
            if getattr(self, what) not in valid:
                raise EncodeError(f"sidco: {what} is {getattr(self, what)!r}; known: {', '.join(valid)}")
        if self.stages is not None and not 1 <= self.stages <= 64:
            raise EncodeError(f"sidco: stages is {self.stages}; it must be from 1 to 64")
        if not (0 < self.first < 1 and self.window >= 1 and 0 <= self.tolerance < 1):
            raise EncodeError(
                f"sidco: first {self.first!r}, window {self.window}, tolerance {self.tolerance!r}"
            )

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """The elements beyond the fitted threshold; EncodeError names the first NaN or Inf."""
        return self.search(x, state=state).selection

    def search(self, x: Array, *, state: Any = None) -> SIDCoResult:
        """As ``select``, and how it came about."""
        self._control(state)
        if x.size == 0:
            return SIDCoResult(Selection(np.empty(0, np.int32), state), 0.0)
        return self.search_magnitudes(Magnitudes(x, self.name, with_logs=self.sid == "gamma-gp"), state=state)

    def search_magnitudes(self, magnitudes: MagnitudeSource, *, state: Any = None) -> SIDCoResult:
        """As ``search``, of one or more elements that nothing was asked of before, wherever they lie."""
        size = magnitudes.size
        control = self._control(state)
        k = fraction_count(self.ratio, size)
        stages = ThresholdSearch(magnitudes, k, self.sid, self.first)
        indices: Array | None = None
        threshold = 0.0
        if k >= magnitudes.total.count:  # all that are not 0; of a ratio of 1, all
            if k < size:
                threshold = magnitudes.round_up(0.0)
                indices = magnitudes.find_reaching(threshold, magnitudes.total.count)
        elif control is not None:
            indices, threshold = stages.run_faithful(
                min(control.stages, sidco_controller.max_stages(self.ratio))
            )
            control = sidco_controller.update(
                control, indices.size / k, self.ratio, window=self.window, tolerance=self.tolerance
            )
            state = sidco_controller.save(control)
        else:
            indices, threshold = stages.run_retargeted(self.stages or _DEFAULT_STAGES, k * self.tolerance / 4)
        return SIDCoResult(
            Selection(indices, state),
            threshold / magnitudes.scale,
            tuple(stages.measured),
            stages.fit_count,
            magnitudes.elements_read / size,
            stages.exact,
        )

    def _control(self, state: Any) -> sidco_controller.Controller | None:
        return sidco_controller.restore(state, self.stages or 1) if self.mode == "faithful" else None
