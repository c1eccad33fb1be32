"""Version of the package; ``container.writer`` has that of the wire format."""

from __future__ import annotations

__version__ = "0.2.0"
