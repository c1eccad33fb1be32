"""Records and coefficients of transformed tensors."""
