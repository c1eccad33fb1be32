"""``sidco``: a threshold from staged fits of a sparsity-inducing distribution (SIDCo, MLSys 2021).

Stage 1 fits the magnitudes that are not 0. Each later stage fits the excess over the threshold before it, so
the tail is fitted by the tail.

*Retargeted*, the default: every stage aims at k from the count that the stage before it kept. After the last
stage, thresholds are interpolated, linearly in the logarithm of the count, until the count is within
tolerance/4 of k. If that fails, as with equal magnitudes, the k largest are selected exactly.

*Faithful*: the paper's stages and its controller of their number. Its Algorithm 1 is corrected in five places
that cannot be meant: signs; zeros; σ for σ²; an average over Q counts that drops one; a number of
stages that never leaves 1 if one stage keeps too much.
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
from wirecodec.validation import as_integer, as_ratio, as_real, set_fields

__all__ = ["SIDCo", "SIDCoResult"]

_DEFAULT_STAGES = 3


@dataclass(frozen=True, eq=False)
class SIDCoResult:
    """A selection, and how the search for its threshold went.

    Attributes:
        selection: the result of ``select``.
        threshold: in the unit of x; every element above it was selected, and those equal to it possibly in
            part.
        measured: the thresholds measured, in order.
        stages: number of fits.
        reads: elements read per element of the tensor; an exact selection counts as one read.
        exact: whether the search ended in an exact top-k.
    """

    selection: Selection
    threshold: float
    measured: tuple[MeasuredThreshold, ...] = ()
    stages: int = 0
    reads: float = 0.0
    exact: bool = False


@dataclass(frozen=True)
class SIDCo:
    """Selector of about k elements, by the threshold of a distribution fitted to the tail.

    Selects {i : |x_i| ≥ t, x_i ≠ 0}. Stage 1 takes t from P(|x| > t) = ``first``; stage s adds the threshold
    of a fit to |x| - t over the elements that reach t. k = max(1, ⌊ratio · n⌋).

    Cost: typically three to four reads of the array, at most about eight.

    Source: Abdelmoniem et al., SIDCo, MLSys 2021, sections 2.3 and 2.4, Algorithm 1.

    Args:
        ratio: k/n, above 0 and at most 1.
        sid: the distribution: "exponential", "gamma-gp" (gamma, then generalised Pareto), or "gp".
        mode: "retargeted" or "faithful".
        stages: number of stages, 1 to 64; 3 by default. Faithful: the initial number, 1 by default.
        first: fraction that stage 1 keeps, above 0 and below 1. If ``ratio`` is no smaller, there is one
            stage.
        window: faithful: steps between two changes of the number of stages, 1 or more.
        tolerance: relative error of the count, 0 or more and below 1. Faithful: the error of a window's mean
            count above which the number of stages changes. Retargeted: four times the accepted error.

    Raises:
        EncodeError: if a parameter is out of range.

    Example:
        >>> import numpy as np, wirecodec as wc
        >>> wc.SIDCo(0.01).select(np.arange(10_000, dtype=np.float32)).indices.size
        100
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
        set_fields(
            self,
            ratio=as_ratio(self.ratio, "sidco: ratio"),
            first=as_real(self.first, "sidco: first"),
            window=as_integer(self.window, "sidco: window"),
            tolerance=as_real(self.tolerance, "sidco: tolerance"),
        )
        if self.stages is not None:
            set_fields(self, stages=as_integer(self.stages, "sidco: stages"))
        for what, valid in (("sid", tuple(DISTRIBUTIONS)), ("mode", ("retargeted", "faithful"))):
            if getattr(self, what) not in valid:
                raise EncodeError(
                    f"sidco: {what} is {getattr(self, what)!r}; it must be one of {', '.join(valid)}"
                )
        if self.stages is not None and not 1 <= self.stages <= 64:
            raise EncodeError(f"sidco: stages is {self.stages}; it must be 1 to 64")
        if not 0 < self.first < 1:
            raise EncodeError(f"sidco: first is {self.first!r}; it must be above 0 and below 1")
        if self.window < 1:
            raise EncodeError(f"sidco: window is {self.window}; it must be 1 or more")
        if not 0 <= self.tolerance < 1:
            raise EncodeError(f"sidco: tolerance is {self.tolerance!r}; it must be 0 or more and below 1")

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select the elements that reach the fitted threshold.

        Args:
            x: (n,) any element type.
            gradient: unused.
            state: (5,) float64, the controller's state, or None; faithful mode only.
            seed: unused.

        Returns a Selection with the next state.

        Raises EncodeError at the first NaN or Inf, and if ``state`` is not a controller's state.
        """
        return self.search(x, state=state).selection

    def search(self, x: Array, *, state: Any = None) -> SIDCoResult:
        """Select as ``select`` does; return also how the search went."""
        self._control(state)
        if x.size == 0:
            return SIDCoResult(Selection(np.empty(0, np.int32), state), 0.0)
        return self.search_magnitudes(Magnitudes(x, self.name, with_logs=self.sid == "gamma-gp"), state=state)

    def search_magnitudes(self, magnitudes: MagnitudeSource, *, state: Any = None) -> SIDCoResult:
        """Search magnitudes on any device, as ``search`` does.

        Args:
            magnitudes: one or more elements, on which no method was called yet.
            state: as ``select`` takes it.

        Returns a SIDCoResult whose indices are in the source's array type.
        """
        size = magnitudes.size
        control = self._control(state)
        k = fraction_count(self.ratio, size)
        search = ThresholdSearch(magnitudes, k, self.sid, self.first)
        indices: Array | None = None
        threshold = 0.0
        if k >= magnitudes.total.count:  # all elements that are not 0, or all if ratio is 1
            if k < size:
                threshold = magnitudes.round_up(0.0)
                indices = magnitudes.find_reaching(threshold, magnitudes.total.count)
        elif control is not None:
            indices, threshold = search.run_faithful(
                min(control.stages, sidco_controller.max_stages(self.ratio))
            )
            control = sidco_controller.update(
                control, indices.size / k, self.ratio, window=self.window, tolerance=self.tolerance
            )
            state = sidco_controller.save(control)
        else:
            indices, threshold = search.run_retargeted(self.stages or _DEFAULT_STAGES, k * self.tolerance / 4)
        return SIDCoResult(
            Selection(indices, state),
            threshold / magnitudes.scale,
            tuple(search.measured),
            search.fit_count,
            magnitudes.elements_read / size,
            search.exact,
        )

    def _control(self, state: Any) -> sidco_controller.Controller | None:
        return sidco_controller.restore(state, self.stages or 1) if self.mode == "faithful" else None
