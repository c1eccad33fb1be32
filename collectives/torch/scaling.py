"""Loss scales: the unit of gradients under ``torch.amp.GradScaler``.

A GradScaler multiplies the loss, and so all gradients, by a scale that changes during a training. Residuals,
momenta, thresholds, limits of values and clipping need gradients in their true unit. So gradients are divided
by the scale before they are compressed, and the means are multiplied by it.
"""

from __future__ import annotations

import gc
import math
import warnings
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from collectives.errors import name_kind
from collectives.torch.optimizer import list_wrapped


@dataclass(frozen=True)
class LossScale:
    """Factor by which gradients are larger than in their true unit.

    Attributes:
        factor: above 0 and finite; 1 without a scaler.
        unit: text on which all ranks must agree; "" without a scaler.
    """

    factor: float = 1.0
    unit: str = ""

    @classmethod
    def of(cls, scaler: Any, optimizer: Any = None) -> LossScale:
        """Return the present scale of a scaler, or that of unscaled gradients for None.

        Args:
            scaler: a ``torch.amp.GradScaler``, or None.
            optimizer: of the gradients, or None if it is unknown.

        Raises:
            ValueError: the scaler's ``unscale_`` was called in this step, or its scale is not a positive
                finite number.
        """
        if scaler is None or not scaler.is_enabled():
            return cls()
        if _has_unscaled(scaler, optimizer):
            raise ValueError(_TOO_EARLY)
        factor = float(scaler.get_scale())
        if not 0 < factor < math.inf:
            raise ValueError(f"the scaler's scale is {factor}; it must be above 0 and finite")
        return cls(factor, f"; loss scale {factor!r}")

    def to_true_unit(self, gradients: Mapping[str, Any]) -> dict[str, Any]:
        """Return torch gradients in their true unit, dense ones contiguous; itself what does not change."""
        import torch

        given = {name: x.contiguous() if x.layout is torch.strided else x for name, x in gradients.items()}
        return {name: self._divide(x) for name, x in given.items()} if self.unit else given

    def _divide(self, gradient: Any) -> Any:
        """Divide a gradient by the scale.

        A type of 16 bits becomes float32 if its range or its digits do not suffice for the quotient.
        """
        import torch

        is_power = math.frexp(self.factor)[0] == 0.5
        exact = gradient.dtype in (torch.float32, torch.float64) or (
            gradient.dtype is torch.bfloat16 and is_power
        )
        wide = gradient if exact else gradient.float()
        return wide / self.factor

    def limits(self, gradients: Mapping[str, Any]) -> dict[str, float]:
        """Return the largest magnitude of each mean that is finite again in its gradient's unit and type."""
        import torch

        if not self.unit:
            return {}
        return {name: torch.finfo(x.dtype).max / self.factor for name, x in gradients.items()}

    def write(self, mean: Any, gradient: Any) -> None:
        """Write a mean of ``to_true_unit``, which this overwrites, into a dense gradient."""
        gradient.copy_(mean.mul_(self.factor) if self.unit else mean)


_TOO_EARLY = (
    "scaler.unscale_() was called before the gradients were averaged, so each rank has looked for Inf in its"
    " own gradients only: average them first, and then call scaler.unscale_() or scaler.step()"
)


def check_scaler(scaler: Any) -> None:
    """Raise TypeError unless the argument is None or has the functions of a ``torch.amp.GradScaler``."""
    has_scale = hasattr(scaler, "get_scale") and hasattr(scaler, "is_enabled")
    if scaler is not None and (isinstance(scaler, type) or not has_scale):
        raise TypeError(
            f"scaler is {name_kind(scaler)}; pass the torch.amp.GradScaler of this training, or None"
        )


_SEEN: weakref.WeakKeyDictionary[Any, dict[weakref.ref[Any], float]] = weakref.WeakKeyDictionary()
"""Scales of the enabled scalers of this process, as the last step of each compressor has found them."""


def warn_of_changed_scale(compressor: Any) -> None:
    """Warn once if a scaler that was not passed has changed its scale while there are residuals.

    The scalers are those that exist when a compressor takes its first step.

    Args:
        compressor: a Compressor or a CLTk that gets gradients without a scaler.
    """
    try:
        before = _SEEN.get(compressor)
    except TypeError:  # an object of a subclass that cannot be hashed
        return
    if before is None:
        before = {weakref.ref(one): _scale_of(one) for one in _find_scalers()}
    now = {ref: _scale_of(one) for ref in before if (one := ref()) is not None}
    changed = [ref for ref in now if now[ref] != before[ref]] if compressor.step else []
    _SEEN[compressor] = {} if changed else now
    for ref in changed[:1]:
        warnings.warn(
            f"a GradScaler has changed its scale from {before[ref]:g} to {now[ref]:g}, and residuals are kept"
            " in the old unit. If it scales this loss, pass scaler= to torch_hook or average_gradients",
            stacklevel=2,
        )


def _has_unscaled(scaler: Any, optimizer: Any) -> bool:
    """Return whether ``unscale_`` was called since the last update, as far as the scaler shows that.

    Of several optimizers, it is unknown which one has the gradients.
    """
    states = getattr(scaler, "_per_optimizer_states", {})
    known = list(states.values())
    if optimizer is not None:
        own = {id(one) for one in list_wrapped(optimizer)}
        known = [state for key, state in states.items() if key in own]
    return len(known) == 1 and getattr(known[0].get("stage"), "name", "") == "UNSCALED"


def _find_scalers() -> list[Any]:
    """Return the enabled GradScalers of this process."""
    import torch

    kind = torch.amp.GradScaler
    return [one for one in gc.get_objects() if issubclass(type(one), kind) and _scale_of(one)]


def _scale_of(scaler: Any) -> float:
    """Return a scaler's scale; 0 for one that is disabled, or not made completely."""
    with suppress(Exception):
        return float(scaler.get_scale()) if scaler.is_enabled() else 0.0
    return 0.0
