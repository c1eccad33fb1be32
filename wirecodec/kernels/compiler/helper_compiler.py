"""Numba compiler of inlined helpers: it stops before code is optimised and generated.

Numba compiles every function that a kernel calls as if it were called from Python, too: it optimises the
function's module, generates machine code, and adds a wrapper. A helper is needed as LLVM code only. LLVM
inlines it into the kernel, and optimises it there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import NativeLowering, NopythonTypeInference

from wirecodec.kernels.compiler.literals import without_literals
from wirecodec.kernels.compiler.type_inference import TypeInference


class _KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Library of a kernel; it skips declarations of other functions, and a first pass over instructions."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                manager, builder = self._codegen._function_pass_manager()
                manager.run(function, builder)

    def _optimize_final_module(self) -> None:
        # Numba's first passes also combine instructions, which the full ones repeat. The two that are kept
        # change the result: without them, the arithmetic decoder takes 17 % longer.
        builder = self._codegen._pass_builder(loop_vectorize=False, slp_vectorize=False, opt=0)
        first = builder.getModulePassManager()
        first.add_loop_rotate_pass()
        first.add_jump_threading_pass()
        first.run(self._final_module, builder)
        full, builder = self._codegen._module_pass_manager()
        full.run(self._final_module, builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class _KernelLowering(LoweringPass):  # type: ignore[misc]
    """Lowering into a ``_KernelLibrary``."""

    _name = "wirecodec_kernel_lowering"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Lower a kernel."""
        state.library = _KernelLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(NativeLowering().run_pass(state))


class _HelperLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Library whose module is linked into others, and never becomes machine code."""

    def add_ir_module(self, ir_module: Any) -> None:
        for function in ir_module.functions:
            if not function.is_declaration:
                # LLVM judges by size, and a helper is larger here than after its own optimisation.
                function.attributes.add("alwaysinline")
        super().add_ir_module(ir_module)

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _HelperLowering(LoweringPass):  # type: ignore[misc]
    """Lowering into a library of its own; the entry point is a name for callers, not a function."""

    _name = "wirecodec_helper_lowering"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Lower a helper."""
        context, flags = state.targetctx, state.flags
        state.library = _HelperLibrary(context.codegen(), state.func_id.func_qualname)
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        NativeLowering().run_pass(state)
        state.library.finalize()
        entry = _EntryPoint()
        context.insert_user_function(entry, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=entry)
        return True


_IDLE_PASSES = {
    "WithLifting",
    "InlineClosureLikes",
    "RewriteDynamicRaises",
    "MakeFunctionToJitFunction",
    "InlineInlinables",
    "FindLiterallyCalls",
    "LiteralUnroll",
    "InlineOverloads",
    "NoPythonSupportedFeatureValidation",
    "AnnotateTypes",
    "DumpParforDiagnostics",
    "NopythonRewrites",
}
"""Passes for closures, comprehensions, array expressions, dynamic exceptions and reports.

Kernels have none of these.
"""


class _EntryPoint:
    """Key by which callers find a helper's code; Python cannot call it."""

    def __call__(self, *args: Any) -> Any:
        raise TypeError("this helper is compiled into kernels only")


class KernelCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler without the passes that find nothing in kernels."""

    lowering: type = _KernelLowering

    def define_pipelines(self) -> list[Any]:
        """Return the pipeline."""
        (pipeline,) = super().define_pipelines()
        own = {NativeLowering: self.lowering, NopythonTypeInference: TypeInference}
        pipeline.passes = [
            (own.get(step, step), words)
            for step, words in pipeline.passes
            if step.__name__ not in _IDLE_PASSES
        ]
        pipeline.finalize()
        return [pipeline]


class _HelperCompiler(KernelCompiler):
    """Compiler of helpers, which stops after the lowering."""

    lowering = _HelperLowering


def make_helper(fn: Callable[..., Any], **options: Any) -> Any:
    """Make a dispatcher whose code is compiled into the kernels that call it.

    Args:
        fn: the function.
        options: further options of ``numba.njit``.
    """
    settings = {"nogil": True, "error_model": "numpy", "inline": "never", **options}
    dispatcher = numba.njit(pipeline_class=_HelperCompiler, **settings)(fn)

    def compile_helper(signature: Any) -> Any:
        # Dispatcher.compile would also look for a cache, start timers and add an entry point for Python.
        arguments = without_literals(tuple(signature))
        with global_compiler_lock:
            if arguments not in dispatcher.overloads:
                dispatcher.overloads[arguments] = dispatcher._compiler.compile(arguments, None)
        return dispatcher.overloads[arguments].entry_point

    dispatcher.compile = compile_helper
    return dispatcher
