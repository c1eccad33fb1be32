"""Gradients of small trained models, for the other benchmarks."""
