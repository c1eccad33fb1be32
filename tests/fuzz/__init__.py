"""Fuzzing: containers broken on purpose, and what must hold whatever they hold (``make fuzz``)."""
