"""Shared parts of the benchmarks: timing, result pages, targets."""
