"""Element types: floats of all codecs, other types of lossless codecs, and their names in frameworks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from wirecodec.errors import EncodeError

BFLOAT16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
DTYPES: tuple[np.dtype[Any], ...] = (
    np.dtype(np.float32),
    np.dtype(np.float16),
    BFLOAT16,
    np.dtype(np.float64),
)
"""The element types that all codecs carry, in the order of their wire codes 1, 2, 3, 4."""

FLOAT4_X2: np.dtype[Any] = np.dtype([("float4_e2m1fn_x2", np.uint8)])
"""A byte of two floats of 4 bits. NumPy has no such type, so it is a structure, whose field has the name."""

RECORD_DTYPES: dict[int, np.dtype[Any]] = dict(
    enumerate(
        map(
            np.dtype,
            (
                *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_),
                *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.complex64, np.complex128),
                *(ml_dtypes.float8_e8m0fnu, FLOAT4_X2),
            ),
        ),
        16,
    )
)
"""The element types that lossless codecs alone carry, by their numbers in the record of types."""
RECORD_NUMBERS = {dtype: number for number, dtype in RECORD_DTYPES.items()}
ELEMENT_DTYPES = (*DTYPES, *RECORD_DTYPES.values())
"""All element types."""

OF_ML_DTYPES = {dtype.name: dtype for dtype in ELEMENT_DTYPES if dtype.isbuiltin == 2}
"""Floats that NumPy does not have, by their names."""
BEYOND_NUMPY = OF_ML_DTYPES | dict.fromkeys(FLOAT4_X2.names or (), FLOAT4_X2)
"""All types that NumPy does not have, by their names."""
FLOATS = frozenset(DTYPES)


def name_of(dtype: np.dtype[Any]) -> str:
    """Return the name of an element type, as in SPEC sections 2.2 and 3.6."""
    return dtype.name if dtype.names is None else dtype.names[0]


def holds(wide: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether a type takes the values of another: a float takes floats; others have all of them."""
    if wide == dtype or (is_float(wide) and is_float(dtype)):
        return True
    return wide.kind in "biufc" and np.can_cast(dtype, wide, "safe")


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether a type is a float of any width."""
    return dtype.kind == "f" or dtype in OF_ML_DTYPES.values()


def dtype_named(dtype: Any) -> np.dtype[Any]:
    """Return the float of a dtype or its name, which may be of torch or TensorFlow.

    Raises EncodeError for any type that is not in ``DTYPES``.
    """
    native = element_dtype_named(dtype)
    if native not in FLOATS:
        raise EncodeError(
            f"dtype {name_of(native)} is not carried; it must be float32, float16, bfloat16 or float64"
        )
    return native


def element_dtype_named(dtype: Any) -> np.dtype[Any]:
    """Return the element type of a dtype or its name, which may be of torch or TensorFlow.

    Raises EncodeError for any type that is not in ``ELEMENT_DTYPES``.
    """
    try:
        return _dtype_named(dtype)
    except TypeError:  # it cannot be hashed, so it is unknown
        return _find_dtype(dtype)


def number_of(dtype: Any) -> int:
    """Return the number of an element type, in the table or in the record of types."""
    kind = element_dtype_named(dtype)
    return RECORD_NUMBERS[kind] if kind in RECORD_NUMBERS else DTYPES.index(kind) + 1


@lru_cache(maxsize=64)
def _dtype_named(dtype: Any) -> np.dtype[Any]:
    return _find_dtype(dtype)


def _find_dtype(dtype: Any) -> np.dtype[Any]:
    module = type(dtype).__module__.partition(".")[0]
    name = str(dtype).rpartition(".")[2] if module == "torch" else dtype
    if module == "tensorflow":
        name = dtype.name
    if name is None:
        raise EncodeError("dtype is None; it must be float32, float16, bfloat16 or float64")
    try:
        own = BEYOND_NUMPY.get(name) if isinstance(name, str) else None
        given: np.dtype[Any] = np.dtype(name) if own is None else own
    except TypeError:
        raise EncodeError(f"dtype is {dtype!r}, which is unknown") from None
    native: np.dtype[Any] = given.newbyteorder("=")
    if native not in ELEMENT_DTYPES:
        raise EncodeError(
            f"dtype {given} is not carried; it must be float32, float16, bfloat16 or float64, or for lossless"
            " codecs an integer of 8 to 64 bits, bool, float8_e4m3fn, float8_e5m2, float8_e8m0fnu,"
            " float4_e2m1fn_x2, complex64 or complex128"
        )
    return native
