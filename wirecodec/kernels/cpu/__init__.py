"""Numba kernels on flat NumPy arrays.

They trust their arguments: callers validate sizes and ranges.
"""
