"""Benchmarks: one package per question; results and the machine of each are in ``benchmarks/results``."""
