"""Type inference that remembers the signatures of Numba's own functions.

Numba searches all overloads of ``+`` at each addition of a kernel, and writes a report of those that do not
match. The same types give the same signature in all kernels.
"""

from __future__ import annotations

import operator
from typing import Any

from numba import types
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NopythonTypeInference

_REMEMBERED = types.Function, types.NumberClass, type(operator.getitem)
"""Kinds of functions: Numba's types of them, and operators as such, as Numba asks for ``x[i]``."""

_signatures: dict[Any, Any] = {}
"""{(function, types of its arguments): signature}; compilers run under Numba's lock."""


class _RememberingContext:
    """Typing context in front of Numba's.

    Args:
        context: Numba's.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, keywords: Any) -> Any:
        """Return the signature of a call; those of kernels and helpers are not remembered here."""
        if type(function) not in _REMEMBERED or keywords:
            return self._context.resolve_function_type(function, args, keywords)
        key = function, tuple(args)
        if key not in _signatures:
            _signatures[key] = self._context.resolve_function_type(function, args, keywords)
        return _signatures[key]


@register_pass(mutates_CFG=True, analysis_only=False)
class TypeInference(NopythonTypeInference):  # type: ignore[misc]
    """Numba's type inference with a ``_RememberingContext``."""

    _name = "wirecodec_type_inference"

    def run_pass(self, state: Any) -> bool:
        """Infer the types of a function."""
        context = state.typingctx
        state.typingctx = _RememberingContext(context)
        try:
            return bool(super().run_pass(state))
        finally:
            state.typingctx = context
