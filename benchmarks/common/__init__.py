"""Shared parts of the benchmarks: timing, inputs, peers, targets, result pages."""
