"""Gradients of small trained models, as input for the other benchmarks; needs torch."""
