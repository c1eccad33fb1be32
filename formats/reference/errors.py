"""The seven kinds of refusal (SPEC section 7).

The class is the kind; ``code`` is the stable string of the row that failed. ``offset`` (bytes from the
container's start) and ``entry`` (row of the table of contents) say where, as far as that is one place. Kinds
and codes are normative; messages and positions are a courtesy.
"""

from __future__ import annotations


class WireError(ValueError):
    """Bytes that are not an acceptable container."""

    def __init__(
        self, code: str, message: str, *, offset: int | None = None, entry: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.offset = offset
        self.entry = entry

    @property
    def kind(self) -> str:
        """The kind of SPEC section 7: the name of the class."""
        return type(self).__name__

    def __str__(self) -> str:
        where = "" if self.entry is None else f" in entry {self.entry}"
        where += "" if self.offset is None else f" at byte {self.offset}"
        return f"{self.code}: {self.message}{where}"


class Truncated(WireError):
    """More bytes are needed: every proper prefix of a valid container is refused so."""


class Malformed(WireError):
    """The parts do not fit together: lengths, padding, reserved bits."""


class Invalid(WireError):
    """The parts fit together and mean something that cannot be."""


class ChecksumMismatch(WireError):
    """The bytes are not those that were written."""


class Unsupported(WireError):
    """Perhaps valid, but of a kind that this reader does not know."""


class LimitExceeded(WireError):
    """Beyond what the caller is willing to read."""


class SchemaMismatch(WireError):
    """Valid, but not the tensors that the caller expects."""
