"""Types of arguments without Numba's literal types."""

from __future__ import annotations

from typing import Any

from numba import types


def without_literals(signature: Any) -> Any:
    """Replace literal types, for which Numba would compile a function once more.

    While Numba infers the types of a loop, it takes a variable for the literal of its first value.
    """
    return tuple(types.unliteral(each) for each in signature) if isinstance(signature, tuple) else signature
