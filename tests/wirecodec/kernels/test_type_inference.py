"""Signatures that are remembered between kernels."""

from __future__ import annotations

import operator
from typing import Any
from unittest.mock import patch

import numba
import numpy as np
from numba import types
from numba.core.typing.context import BaseContext

from wirecodec.kernels.compiler.helper_compiler import KernelCompiler


def compile_sum() -> Any:
    return numba.njit(pipeline_class=KernelCompiler)(lambda x, y: x * y + x)


def test_numba_looks_for_an_operator_once_per_types() -> None:
    compile_sum()(np.float32(2), np.float32(3))
    with patch.object(BaseContext, "resolve_function_type", autospec=True) as resolve:
        assert compile_sum()(np.float32(2), np.float32(3)) == 8
    assert operator.add not in {getattr(call.args[1], "typing_key", None) for call in resolve.mock_calls}


def test_types_are_told_apart() -> None:
    add = compile_sum()
    assert add(2, 3) == 8
    assert add(0.5, 3.0) == 2.0
    signatures = add.nopython_signatures
    assert [each.return_type for each in signatures] == [types.int64, types.float64]
