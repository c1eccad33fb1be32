"""Benchmark of ``budget``: error over bits, compared with a grid of schemes and with bounds."""
