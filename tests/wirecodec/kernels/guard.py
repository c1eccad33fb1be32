"""Allocator with a guard page behind each array, which ``guard.c`` implements and ``LD_PRELOAD`` loads."""

from __future__ import annotations

import ctypes

import numpy as np

__all__ = ["guard_memory"]

_HANDLER = b"mem_handler"
_SET_HANDLER = 304
"""The number of PyDataMem_SetHandler in NumPy's C API (numpy/__multiarray_api.h)."""


def guard_memory() -> ctypes.CDLL:
    """Switch on the allocator of ``guard.c``, for NumPy's small arrays, too; return its library."""
    library, python = ctypes.CDLL(None), ctypes.pythonapi
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    handler = ctypes.addressof(ctypes.c_char.in_dll(library, "guard_handler"))
    functions = python.PyCapsule_GetPointer(np._core.multiarray._ARRAY_API, None)
    address = ctypes.cast(functions, ctypes.POINTER(ctypes.c_void_p))[_SET_HANDLER]
    ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)(
        python.PyCapsule_New(handler, _HANDLER, None)
    )
    library.guard_on(1)
    return library
