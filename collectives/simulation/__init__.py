"""Simulated ranks: many ranks in one process, for tests and studies."""
