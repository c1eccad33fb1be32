"""Sums of all ranks' tensors by algorithms that move whole tensors: containers, or dense vectors."""
