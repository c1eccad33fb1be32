"""Shared parts of all exchanges of tensors: descriptions, encoding, memory for results, and the agreement."""
