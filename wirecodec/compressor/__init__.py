"""Compressor: the state that persists between steps, and its step.

``compressor`` defines the class, and ``settings`` its arguments. ``state`` is the value that a step takes and
returns, ``holder`` has the current one, and ``memory`` the arrays that steps overwrite. ``prepared`` is a
step that waits for its exchange, and ``parts`` a step that is exchanged in parts. ``budgets`` scales budgets
to a number of bytes. ``saved_state`` writes and reads a saved state, and ``loaded`` compares it with the
training at the first step. CLT-k and gTop-k have the same states.
"""

from wirecodec.compressor.compressor import Compressor
from wirecodec.compressor.holder import Prepared
from wirecodec.compressor.loaded import rename_state

__all__ = ["Compressor", "Prepared", "rename_state"]
