"""The seven kinds of refusal (SPEC section 7).

The class is the kind; ``code`` is the stable string of the row that failed. ``offset`` (bytes from the
container's start) and ``entry`` (row of the table of contents) locate the error if it has one place. Kinds
and codes are normative; messages and positions are informative.
"""

from __future__ import annotations


class WireError(ValueError):
    """Error about bytes that are not an acceptable container."""

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
    """More bytes are needed. Every proper prefix of a valid container is refused with this kind."""


class Malformed(WireError):
    """The parts do not fit together: lengths, padding, reserved bits."""


class Invalid(WireError):
    """The parts fit together, but their content breaks a rule."""


class ChecksumMismatch(WireError):
    """The bytes are not those that were written."""


class Unsupported(WireError):
    """The container may be valid, but uses a feature that this reader does not know."""


class LimitExceeded(WireError):
    """The container exceeds a limit of the caller."""


class SchemaMismatch(WireError):
    """The container is valid, but does not hold the tensors that the caller expects."""
