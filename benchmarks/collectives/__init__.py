"""Hosts on one machine, and what collectives take between them: the parts of ``benchmarks.collectives``."""
