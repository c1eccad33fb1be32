"""Parameters as plain Python numbers: codecs compare, hash and print alike, wherever a number came from."""

from __future__ import annotations

import operator
from typing import Any

from wirecodec.errors import EncodeError

__all__ = ["as_flag", "as_integer", "as_ratio", "as_real", "as_seed", "settle"]


def settle(part: Any, **fields: Any) -> None:
    """Set fields of a frozen dataclass from its ``__post_init__``, once they are checked."""
    for name, value in fields.items():
        object.__setattr__(part, name, value)


def as_integer(value: Any, what: str) -> int:
    """An ``int`` from a Python or NumPy integer; EncodeError naming ``what`` for anything else."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise EncodeError(f"{what} is {value!r}; it must be an integer") from None


def as_real(value: Any, what: str) -> float:
    """A ``float`` from a Python or NumPy number, by its shortest decimal; EncodeError for anything else.

    A float32 of 0.1 becomes 0.1, what was written, and not the nearest float64 of that float32.
    """
    if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
        raise EncodeError(f"{what} is {value!r}; it must be a number")
    try:
        return float(str(value)) if hasattr(value, "dtype") else float(value)
    except (TypeError, ValueError):
        raise EncodeError(f"{what} is {value!r}; it must be a number") from None
    except OverflowError:
        raise EncodeError(f"{what} is an integer beyond every float") from None


def as_seed(value: Any) -> int:
    """A u64 from any integer, modulo 2^64; EncodeError for anything else."""
    return as_integer(value, "seed") % 2**64


def as_flag(value: Any, what: str) -> bool:
    """A ``bool``; EncodeError naming ``what`` for anything else."""
    if not isinstance(value, bool):
        raise EncodeError(f"{what} is {value!r}; it must be True or False")
    return value


def as_ratio(value: Any, what: str) -> float:
    """A ``float`` above 0 and at most 1, as ``as_real`` reads it; EncodeError naming ``what`` otherwise."""
    ratio = as_real(value, what)
    if not 0 < ratio <= 1:
        raise EncodeError(f"{what} is {ratio!r}; it must be above 0 and at most 1")
    return ratio
