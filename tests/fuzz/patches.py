"""The library as a reader of patches of weights, which vectors, the fuzzer and mutants call."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import wirecodec as wc
from formats.patches import State
from wirecodec.element_types import ELEMENT_DTYPES, name_of

DTYPES = {name_of(dtype): dtype for dtype in ELEMENT_DTYPES}

Arrays = dict[str, np.ndarray[Any, Any]]


def to_arrays(state: State) -> Arrays:
    """Return a state as arrays that can be written."""
    return {
        name: np.frombuffer(bytearray(data), DTYPES[dtype]).reshape(shape)
        for name, (dtype, shape, data) in state.items()
    }


def from_arrays(arrays: Arrays) -> State:
    """Return arrays as a state."""
    return {name: (name_of(x.dtype), x.shape, x.tobytes()) for name, x in arrays.items()}


def library(data: bytes, state: State, limits: dict[str, int], part: bool) -> State:
    """Apply with the library, as formats/vectors/README.md requires of a reader of patches.

    Raises:
        AssertionError: the patch is refused, and the state has changed.
        WireError: the patch is refused.
    """
    arrays = to_arrays(state)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the state was half-written")
            wc.apply(data, arrays, partial=part, limits=wc.DecodeLimits(**limits))
    except wc.WireError:
        if from_arrays(arrays) != state:
            raise AssertionError("a refused patch has changed the state") from None
        raise
    return from_arrays(arrays)
