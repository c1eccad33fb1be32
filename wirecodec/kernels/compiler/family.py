"""Families: kernels or helpers that are compiled from one function, once per value of its global ``FORM``.

Numba takes a global number for a constant, and leaves out the branches of other forms before it infers types.
So a member is no larger than if it had been written by hand:

    FORM = 0  # any number, in the module of the function

    @helper_family({0: "float", 1: "integer"})
    def halve(x):
        if FORM == 1:
            return x >> 1
        return x / 2

A function that uses other families gets their members of its own form: it calls ``halve(x)``. Python code and
functions outside a family choose a member by ``halve[1]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from wirecodec.kernels.compiler.jit import inline, kernel


class Family(dict[int, Any]):
    """Kernels or helpers by form; each is made on first use.

    Args:
        fn: the function.
        make: ``kernel`` or ``inline``.
        names: of the forms that the function has.
    """

    def __init__(self, fn: Any, make: Callable[[Any], Any], names: Mapping[int, str]) -> None:
        super().__init__()
        self.names = names
        self._fn = fn
        self._make = make

    def __missing__(self, form: int) -> Any:
        """Make the member of a form, and return it."""
        return self.setdefault(form, self._make(self._specialise(form)))

    def _specialise(self, form: int) -> FunctionType:
        """Copy the function, with the form and the members that it uses as globals."""
        fn = self._fn
        used = {name: fn.__globals__.get(name) for name in fn.__code__.co_names}
        members = {name: value[form] for name, value in used.items() if isinstance(value, Family)}
        name = f"{fn.__name__}_{self.names[form]}"
        copy = FunctionType(fn.__code__, {**fn.__globals__, **members, "FORM": form}, name, fn.__defaults__)
        copy.__qualname__, copy.__doc__ = name, fn.__doc__
        return copy


def kernel_family(names: Mapping[int, str]) -> Callable[[Any], Any]:
    """Return a decorator that makes a family of kernels; ``names`` are those of the forms."""
    return lambda fn: Family(fn, kernel, names)


def helper_family(names: Mapping[int, str]) -> Callable[[Any], Any]:
    """Return a decorator that makes a family of helpers, as ``inline`` makes one."""
    return lambda fn: Family(fn, inline, names)
