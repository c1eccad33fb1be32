"""``sidco``: a threshold from staged fits of a sparsity-inducing distribution (SIDCo, MLSys 2021).

Stage 1 fits the magnitudes that are not 0. Each later stage fits the excess over the threshold before it, so
the tail is fitted by the tail.

*Retargeted*, the default: every stage aims at k from the count that the stage before it kept. After the last
stage, thresholds are interpolated, linearly in the logarithm of the count, until the count is within
tolerance/4 of k. If that fails, as with equal magnitudes, the k largest are selected exactly.

*Adaptive*: the paper's stages, with a controller that settles (``sidco_adaptive``). The number of stages is
chosen on the first tensor, so that a call without a state is near k, too.

*Faithful*: the paper's stages, its closed form of the gamma distribution's threshold, and its controller of
the number of stages, as printed. The rest of its Algorithm 1 is corrected in four places that are evident
errors: signs; zeros; σ for σ²; an average over Q counts that drops one. The shape of the generalised Pareto
distribution is clamped to ±½, the range in which its moments exist. A call without a state is the first step
of the paper's algorithm: one stage, often several times k elements. If one stage keeps too much, the printed
controller stays there.

A Compressor selects per tensor, or from a whole model with ``scope="group"``, as some of the paper's runs do.

The paper's names: ``sid="exponential"`` is SIDCo-E, "gamma-gp" is SIDCo-GP, and "gp" is SIDCo-P.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError
from wirecodec.select.base import Selection, Selector
from wirecodec.select.papers.sidco import adaptive as sidco_adaptive
from wirecodec.select.papers.sidco import controller as sidco_controller
from wirecodec.select.papers.sidco.magnitudes import Magnitudes
from wirecodec.select.papers.sidco.search import DISTRIBUTIONS, MeasuredThreshold, ThresholdSearch
from wirecodec.select.papers.sidco.sweeps import MagnitudeSource
from wirecodec.select.topk import fraction_count
from wirecodec.validation import as_integer, as_ratio, as_real, set_fields

_DEFAULT_STAGES = 3
_MODES = ("retargeted", "adaptive", "faithful")


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
class SIDCo(Selector):
    """Selector of about k elements, by the threshold of a distribution fitted to the tail.

    Selects {i : |x_i| ≥ t, x_i ≠ 0}. Stage 1 takes t from P(|x| > t) = ``first``; stage s adds the threshold
    of a fit to |x| - t over the elements that reach t. k = max(1, ⌊ratio · n⌋).

    Cost: typically three to four reads of the array, at most about eight.

    Source: Abdelmoniem et al., SIDCo, MLSys 2021, sections 2.3 and 2.4, Algorithm 1.

    Args:
        ratio: k/n, above 0 and at most 1.
        sid: the distribution: "exponential", "gamma-gp" (gamma, then generalised Pareto), or "gp".
        mode: "retargeted", "adaptive" or "faithful".
        stages: number of stages, 1 to 64; 3 by default. Adaptive: the first number that is tried, 1 by
            default. Faithful: the initial number, 1 by default.
        first: fraction that stage 1 keeps, above 0 and below 1. If ``ratio`` is no smaller, there is one
            stage.
        window: adaptive and faithful: steps between two changes of the controller (the paper's Q), 1 or more.
        tolerance: relative error of the count, 0 or more and below 1. Faithful: the error of a window's mean
            count above which the number of stages changes. Adaptive and retargeted: two and four times the
            error above which the threshold is corrected.
        tolerance_high: adaptive and faithful: the tolerance of counts above k (the paper's ε_H), 0 or more;
            ``tolerance`` by default.
        tolerance_low: the tolerance of counts below k (ε_L), 0 or more and below 1; ``tolerance`` by default.
        max_stages: adaptive and faithful: the largest number of stages (M_max), 1 to 64; ⌈log₂ 1/ratio⌉ by
            default.

    Raises:
        EncodeError: if a parameter is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.selectors.SIDCo(0.01).select(np.arange(10_000, dtype=np.float32)).indices.size
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
    tolerance_high: float | None = None
    tolerance_low: float | None = None
    max_stages: int | None = None

    def __post_init__(self) -> None:
        set_fields(
            self,
            ratio=as_ratio(self.ratio, "sidco: ratio"),
            first=as_real(self.first, "sidco: first"),
            window=as_integer(self.window, "sidco: window"),
            tolerance=as_real(self.tolerance, "sidco: tolerance"),
        )
        for what in ("stages", "max_stages"):
            if (count := getattr(self, what)) is not None:
                set_fields(self, **{what: as_integer(count, f"sidco: {what}")})
                if not 1 <= count <= 64:
                    raise EncodeError(f"sidco: {what} is {count}; it must be 1 to 64")
        for what, limit in (("tolerance_high", math.inf), ("tolerance_low", 1.0)):
            if (given := getattr(self, what)) is not None:
                set_fields(self, **{what: as_real(given, f"sidco: {what}")})
                if not 0 <= given < limit:
                    bound = "finite" if limit == math.inf else "below 1"
                    raise EncodeError(f"sidco: {what} is {given!r}; it must be 0 or more and {bound}")
        for what, valid in (("sid", tuple(DISTRIBUTIONS)), ("mode", _MODES)):
            if getattr(self, what) not in valid:
                raise EncodeError(
                    f"sidco: {what} is {getattr(self, what)!r}; it must be one of {', '.join(valid)}"
                )
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
            state: (3,) or (7,) float64, the state of the faithful or the adaptive controller, or None.

        Returns a Selection with the next state.

        Raises EncodeError at the first NaN or Inf, and if ``state`` is not a controller's state.
        """
        return self.search(x, state=state).selection

    def search(self, x: Array, *, state: Any = None) -> SIDCoResult:
        """Select as ``select`` does; return also how the search went."""
        self._restore(state)
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
        restored = self._restore(state)
        k = fraction_count(self.ratio, size)
        search = ThresholdSearch(magnitudes, k, self.sid, self.first, published=self.mode == "faithful")
        indices: Array | None = None
        threshold = 0.0
        if k >= magnitudes.total.count:  # all elements that are not 0, or all if ratio is 1
            if k < size:
                threshold = magnitudes.round_up(0.0)
                indices = magnitudes.find_reaching(threshold, magnitudes.total.count)
        elif self.mode != "retargeted":
            indices, threshold, state = self._run_controlled(search, k, restored)
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

    def _run_controlled(self, search: ThresholdSearch, k: int, control: Any) -> tuple[Array, float, Array]:
        """Select with the stages of a controller; return indices, threshold and the next state."""
        high = self.tolerance if self.tolerance_high is None else self.tolerance_high
        low = self.tolerance if self.tolerance_low is None else self.tolerance_low
        if self.mode == "adaptive":  # act before a window's mean is out of bounds
            low, high = low / 2, high / 2
        bounds = 1 - low, 1 + high
        most = self.max_stages or sidco_controller.max_stages(self.ratio)
        if self.mode == "faithful":
            indices, threshold = search.run_stages(min(control.stages, most))
            control = sidco_controller.update(
                control, indices.size / k, most=most, window=self.window, bounds=bounds
            )
            return indices, threshold, sidco_controller.save(control)
        if control is None or control.ratio != self.ratio:
            least = min(self.stages or 1, most)
            control = sidco_adaptive.begin(search, k, self.ratio, least=least, most=most, bounds=bounds)
        indices, threshold = search.run_stages(control.stages, control.correction)
        control = sidco_adaptive.update(control, indices.size / k, window=self.window, bounds=bounds)
        return indices, threshold, sidco_adaptive.save(control)

    def _restore(self, state: Any) -> Any:
        """Return the controller of a state; None if the mode has none or chooses it on the first tensor."""
        if self.mode == "adaptive":
            return sidco_adaptive.restore(state)
        return sidco_controller.restore(state, self.stages or 1) if self.mode == "faithful" else None
