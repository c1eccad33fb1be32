"""Transforms: a tensor into the coefficients among which the selector chooses, and back."""

from wirecodec.transform.base import Transform
from wirecodec.transform.dct import DCT
from wirecodec.transform.rfft import RFFT

__all__ = ["DCT", "RFFT", "Transform"]
