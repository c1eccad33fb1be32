"""What all exchanges of tensors share: descriptions, encoding, memory for results, and the agreement."""
