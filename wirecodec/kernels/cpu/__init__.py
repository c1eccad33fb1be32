"""Numba kernels on flat NumPy arrays.

They trust their arguments: whoever calls them has validated sizes and ranges.
"""
