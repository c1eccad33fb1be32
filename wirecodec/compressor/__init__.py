"""Compressor: the state that persists between steps, and its step.

``compressor`` has the class, ``state`` what it keeps, ``prepared`` a step that waits for its exchange, and
``saved_state`` the checks of a state that is loaded.
"""

from wirecodec.compressor.compressor import Compressor
from wirecodec.compressor.prepared import Prepared

__all__ = ["Compressor", "Prepared"]
