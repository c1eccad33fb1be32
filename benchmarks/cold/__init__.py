"""Benchmark of the first gradient of a process: compilation, and the start from a warm cache."""
