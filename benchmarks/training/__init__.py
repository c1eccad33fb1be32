"""Small real models, and data that every machine has, for ``benchmarks.gradients``; needs torch."""
