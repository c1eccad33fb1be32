"""Compressor: the state that persists between steps, and its step.

``compressor`` defines the class, ``settings`` its arguments, and ``state`` its residuals and momenta.
``prepared`` is a step that waits for its exchange, and ``parts`` a step that is exchanged in parts.
``budgets`` scales budgets to a number of bytes. ``saved_state`` checks a state before it is loaded,
and ``loaded`` compares it with the training at the first step.
"""

from wirecodec.compressor.compressor import Compressor
from wirecodec.compressor.loaded import rename_state
from wirecodec.compressor.prepared import Prepared

__all__ = ["Compressor", "Prepared", "rename_state"]
