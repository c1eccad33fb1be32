"""Transformed tensors: their coefficients, and the inverse transforms."""
