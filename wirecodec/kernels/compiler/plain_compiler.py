"""Numba's own compiler, for versions of Numba on which ``helper_compiler`` was not tested.

Kernels give the same results with both. With this one a helper becomes machine code that is never called,
so compiling takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core import compiler

KernelCompiler = compiler.Compiler


def make_helper(fn: Callable[..., Any], **options: Any) -> Any:
    """Make a dispatcher of a function that kernels call.

    Args:
        fn: the function.
        options: further options of ``numba.njit``.
    """
    return numba.njit(nogil=True, error_model="numpy", inline="never", **options)(fn)
