"""Vector vocabulary of the CPU kernels: processor words that NumPy's language cannot express."""
