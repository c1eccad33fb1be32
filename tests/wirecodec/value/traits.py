"""Declared properties of each value codec, beyond its format; the property tests check them.

A codec without an entry fails ``test_every_codec_has_traits``.
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
    """Properties of one configuration.

    Args:
        exact: float32 values are preserved bit for bit.
        draws: different seeds give different values; None if they may.
        unbiased: the mean over seeds is the value, up to ``slack`` times the largest magnitude.
        slack: accepted bias relative to the largest magnitude.
        contracts: function of r that returns c in ‖Q(v) - v‖² ≤ (1 - c) ‖v‖²; None if no c is guaranteed.
        feedback: error feedback converges. If False, a sentence of the codec's page contains "error feedback"
            and "diverge". None if it depends on a range that the caller chose.
    """

    exact: bool = False
    draws: bool | None = False
    unbiased: bool = False
    slack: float = 0.0
    contracts: Callable[[int], float] | None = None
    feedback: bool | None = True


def _within(error: float) -> Callable[[int], float]:
    """Return c for a relative error."""
    return lambda r: 1 - error**2


EXACT = Traits(exact=True, unbiased=True, contracts=_within(0.0))


def _qsgd(codec: Any) -> Traits:
    """Return the traits of qsgd; norm l2 has steps of ‖v‖/s, which is mostly noise with few bits."""
    few = codec.norm == "l2" and codec.bits <= 4
    return Traits(draws=True, unbiased=True, slack=2.0**-15, feedback=not few)


def _offset_float(codec: Any) -> Traits:
    """Return the traits of offset-float; rounding to nearest contracts, stochastic rounding is unbiased."""
    fitting = codec.min is codec.max is codec.eps is None
    feedback = True if fitting else None
    if codec.rounding == "nearest":
        return Traits(contracts=lambda r: 1 / (2 * r) if fitting else 0.0, feedback=feedback)
    return Traits(draws=True, unbiased=fitting, slack=2.0**-15, feedback=feedback)


def _terngrad(codec: Any) -> Traits:
    """Return the traits of terngrad; clipping is a bias, and the noise can exceed the values."""
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
"""Functions from a configuration to its traits, by codec name."""


def traits_of(codec: Any) -> Traits:
    """Return the traits of a configuration."""
    return TRAITS[wire_name(codec)](codec)


def _configurations() -> list[Any]:
    """Return every value codec and choice in its VARIANTS, as schemes name them."""
    classes = {cls.name: cls for cls in registry.value_codecs().values()} | registry._stages["value codec"]
    found: list[Any] = []
    for name, cls in classes.items():
        narrow = name.startswith("raw-")
        found += [wc.codecs.Raw(name.removeprefix("raw-"))] if narrow else variants(cls)
    return found


CODECS = _configurations()
"""Configurations that the tests cover."""


def wire_name(codec: Any) -> str:
    """Return the wire name; ``Raw`` with a 16-bit dtype has its own page and traits."""
    return f"raw-{codec.dtype}" if isinstance(codec, wc.codecs.Raw) and codec.dtype else codec.name
