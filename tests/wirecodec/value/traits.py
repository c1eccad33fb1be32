"""What each value codec of the registry promises beyond its format: one table, which the property tests read.

A codec that the table does not name fails ``test_every_codec_has_traits``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import wirecodec as wc
from tests.wirecodec.test_battery import variants
from wirecodec import registry

__all__ = ["CODECS", "TRAITS", "Traits", "traits_of", "wire_name"]


@dataclass(frozen=True)
class Traits:
    """Of one configuration.

    Args:
        exact: float32 values come back bit for bit.
        draws: other seeds give other values; None where it may do so.
        unbiased: values come back on average over the seeds, up to ``slack`` of the largest magnitude.
        contracts: c of ‖Q(v) - v‖² ≤ (1 - c) ‖v‖², of r; None where no c is promised.
        feedback: error feedback converges with it. Where it does not, the codec's page says so, in a sentence
            that has both "error feedback" and "diverge". None where the caller chose a range, which decides.
    """

    exact: bool = False
    draws: bool | None = False
    unbiased: bool = False
    slack: float = 0.0
    contracts: Callable[[int], float] | None = None
    feedback: bool | None = True


def _within(error: float) -> Callable[[int], float]:
    """Of a relative error."""
    return lambda r: 1 - error**2


EXACT = Traits(exact=True, unbiased=True, contracts=_within(0.0))


def _qsgd(codec: Any) -> Traits:
    """Norm l2 takes steps of ‖v‖/s: with few bits, most of what it sends is noise."""
    few = codec.norm == "l2" and codec.bits <= 4
    return Traits(draws=True, unbiased=True, slack=2.0**-15, feedback=not few)


def _offset_float(codec: Any) -> Traits:
    """To nearest, no value moves by more than itself; at random, none moves on average that is in range."""
    fitting = codec.min is codec.max is codec.eps is None
    feedback = True if fitting else None
    if codec.rounding == "nearest":
        return Traits(contracts=lambda r: 1 / (2 * r) if fitting else 0.0, feedback=feedback)
    return Traits(draws=True, unbiased=fitting, slack=2.0**-15, feedback=feedback)


def _terngrad(codec: Any) -> Traits:
    """Clipping is a bias; where magnitudes differ much, the noise is larger than the values."""
    return Traits(draws=True, unbiased=codec.clip is None, slack=2.0**-15, feedback=False)


TRAITS: dict[str, Callable[[Any], Traits]] = {
    "raw": lambda codec: EXACT,
    "raw-float16": lambda codec: Traits(contracts=_within(2.0**-10)),
    "raw-bfloat16": lambda codec: Traits(contracts=_within(2.0**-8)),
    "qsgd": _qsgd,
    "sign-scale": lambda codec: Traits(contracts=lambda r: 1 / r),
    "deflate": lambda codec: EXACT,
    "zstd": lambda codec: EXACT,
    "offset-float": _offset_float,
    "polyfit": lambda codec: Traits(contracts=lambda r: 1 / (2 * r)),
    "dexpfit": lambda codec: Traits(contracts=lambda r: 0.0),
    "terngrad": _terngrad,
    "3lc": lambda codec: Traits(contracts=lambda r: (1 - (codec.sparsity - 1) ** 2) / r),
    "sketchml": lambda codec: Traits(contracts=lambda r: 0.0),
    "error-bounded": lambda codec: Traits(contracts=_within(codec.error)),
    "mean": lambda codec: Traits(contracts=lambda r: 0.0, feedback=False),
    "auto-value": lambda codec: Traits(draws=None, contracts=_within(codec.error)),
}
"""{name: the traits of a configuration}."""


def traits_of(codec: Any) -> Traits:
    """What a configuration promises."""
    return TRAITS[wire_name(codec)](codec)


def _configurations() -> list[Any]:
    """Every class of the registry in its VARIANTS, choices as well, as schemes can name them."""
    classes = {cls.name: cls for cls in registry.value_codecs().values()} | registry._stages["value codec"]
    found: list[Any] = []
    for name, cls in classes.items():
        narrow = name.startswith("raw-")
        found += [wc.Raw(name.removeprefix("raw-"))] if narrow else variants(cls)
    return found


CODECS = _configurations()
"""What the tests go through."""


def wire_name(codec: Any) -> str:
    """The name of the format: that of a narrowed ``Raw`` has a page and traits of its own."""
    return f"raw-{codec.dtype}" if isinstance(codec, wc.Raw) and codec.dtype else codec.name
