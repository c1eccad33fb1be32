"""The version of the package; that of the wire format stands in ``container``."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
