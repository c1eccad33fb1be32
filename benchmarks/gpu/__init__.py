"""Bandwidth of the kernels and times of the selectors on a GPU."""
