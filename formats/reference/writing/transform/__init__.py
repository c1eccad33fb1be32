"""Transform records, and tensors given as coefficients."""
