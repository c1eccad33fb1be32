"""Conversion of parameters to plain Python numbers, so that codecs compare, hash and print alike."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from wirecodec.errors import EncodeError, Unsupported


def set_fields(part: Any, **fields: Any) -> None:
    """Set checked fields of a frozen dataclass from its ``__post_init__``."""
    for name, value in fields.items():
        object.__setattr__(part, name, value)


def as_integer(value: Any, what: str) -> int:
    """Convert a Python or NumPy integer to ``int``; raise EncodeError with ``what`` for anything else."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # the last one is of torch, for a tensor without values
        raise EncodeError(f"{what} is {value!r}; it must be an integer") from None


def as_real(value: Any, what: str) -> float:
    """Convert a Python or NumPy number to ``float`` by its shortest decimal.

    So float32(0.1) becomes 0.1, not 0.10000000149. Raises EncodeError with ``what`` for anything else.
    """
    if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
        raise EncodeError(f"{what} is {value!r}; it must be a number")
    try:
        return float(str(value)) if hasattr(value, "dtype") else float(value)
    except (TypeError, ValueError, RuntimeError):
        raise EncodeError(f"{what} is {value!r}; it must be a number") from None
    except OverflowError:
        raise EncodeError(f"{what} is an integer above every float; it must be at most 1.8e308") from None


def as_seed(value: Any) -> int:
    """Convert any integer to a u64, modulo 2^64; raise EncodeError for anything else."""
    return as_integer(value, "seed") % 2**64


def as_flag(value: Any, what: str) -> bool:
    """Check a ``bool``; raise EncodeError with ``what`` for anything else."""
    if not isinstance(value, bool):
        raise EncodeError(f"{what} is {value!r}; it must be True or False")
    return value


def as_ratio(value: Any, what: str) -> float:
    """Convert a number as ``as_real``; raise EncodeError unless it is above 0 and at most 1."""
    ratio = as_real(value, what)
    if not 0 < ratio <= 1:
        raise EncodeError(f"{what} is {ratio!r}; it must be above 0 and at most 1")
    return ratio


def explain_residual(size: int, residual: int) -> str:
    """Return the reason why a gradient cannot be added to a residual of another size."""
    return f"the gradient has {size} elements; its residual has {residual}; use one Compressor per model"


def sort_names(tensors: Mapping[str, Any]) -> list[str]:
    """Sort names by their UTF-8 bytes, which is the order of keys. Raises EncodeError for an invalid name."""
    if not isinstance(tensors, Mapping):
        raise EncodeError(f"tensors is {type(tensors).__name__}; it must be a mapping {{name: tensor}}")
    try:
        return sorted(tensors, key=str.encode)
    except (TypeError, UnicodeEncodeError) as error:
        raise EncodeError(f"a tensor's name is not a string that UTF-8 can encode: {error}") from None


def import_scipy(part: str, user: str) -> Any:
    """Import a module of SciPy, which is an extra, for an encoder or a selector.

    Args:
        part: "fft" or "special".
        user: the codec or the selector.

    Raises:
        EncodeError: SciPy is not installed.
    """
    try:
        return import_module(f"scipy.{part}")
    except ImportError as error:
        raise EncodeError(f'{user} needs SciPy: pip install "wirecodec[scipy]"') from error


def import_scipy_to_decode(part: str, user: str) -> Any:
    """Import as ``import_scipy``, for a decoder; raise Unsupported if SciPy is not installed."""
    try:
        return import_scipy(part, user)
    except EncodeError as error:
        raise Unsupported("domain", str(error)) from error
