"""Selectors that have CUDA kernels."""
