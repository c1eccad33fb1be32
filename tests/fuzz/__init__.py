"""Fuzzing of the decoder with mutated containers, and properties that hold for any bytes (``make fuzz``)."""
