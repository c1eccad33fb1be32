"""Transforms: a tensor to the coefficients from which the selector chooses, and back.

One file per transform; ``base`` defines the protocol.
"""

from wirecodec.transform.base import Transform
from wirecodec.transform.dct import DCT
from wirecodec.transform.rfft import RFFT

__all__ = ["DCT", "RFFT", "TRANSFORMS", "Transform"]

TRANSFORMS: tuple[type[Transform], ...] = (RFFT, DCT)
"""Every transform, in the order of its domain."""
