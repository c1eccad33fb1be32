"""Many tensors at a time: one kernel call per stage instead of one per tensor, both ways.

A selector or codec that has a batched form gives the same result as its one-by-one form. A codec of the
library without one is called per tensor, and the rest is done together. Every tensor that a batch cannot
take goes one by one: ``cpu.select`` and ``cpu.chunk``.
"""

MIN_TENSORS = 2
"""Tensors that a batch needs to be faster: of one scheme to encode, of one container to decode."""
