"""Compilation of kernels: Numba with a disk cache, helpers without machine code of their own, and locks."""
