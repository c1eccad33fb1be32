"""The errors of wirecodec: one for writers, seven kinds for readers.

``EncodeError`` says that a tensor, or a scheme, cannot be encoded as asked. ``WireError`` and its kinds say
that bytes are not a container that this reader accepts (formats/SPEC.md, section 7); ``code`` is a stable
string from that table, so programs compare codes and people read messages. Both are ``ValueError``. No bytes
make a decoder raise anything but a WireError; a schema or an ``out`` that makes no sense is the caller's own
ValueError or TypeError. ``DeviceError`` says why a GPU cannot be used.
"""

from __future__ import annotations

__all__ = [
    "ChecksumMismatch",
    "DeviceError",
    "EncodeError",
    "Invalid",
    "LimitExceeded",
    "Malformed",
    "SchemaMismatch",
    "Truncated",
    "Unsupported",
    "WireError",
]


class EncodeError(ValueError):
    """A tensor or a scheme cannot be encoded as asked.

    ``tensor`` is the name of the tensor, or None where it has none. ``position`` is the row-major number of
    its first offending element, or None where no single element is to blame.
    """

    def __init__(self, reason: str, *, tensor: str | None = None, position: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.tensor = tensor
        self.position = position

    def __str__(self) -> str:
        where = [f"tensor {self.tensor!r}"] if self.tensor is not None else []
        where += [f"element {self.position}"] if self.position is not None else []
        return f"{', '.join(where)}: {self.reason}" if where else self.reason

    def of(self, tensor: str | None) -> EncodeError:
        """The same error, naming ``tensor`` where no tensor is named yet."""
        if self.tensor is not None:
            return self
        return EncodeError(self.reason, tensor=tensor, position=self.position)


class DeviceError(RuntimeError):
    """A GPU cannot be used: none is there, or what it takes to use one is not, or is not installed."""


class WireError(ValueError):
    """Bytes that this reader does not accept.

    ``code`` is the code of SPEC section 7 or of a codec's page; ``entry`` the number of the table entry, and
    ``offset`` the byte of the container at which the offending part starts, each None where it does not
    apply.
    """

    def __init__(
        self, code: str, message: str, *, offset: int | None = None, entry: int | None = None
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.offset = offset
        self.entry = entry

    def __str__(self) -> str:
        where = [f"entry {self.entry}"] if self.entry is not None else []
        where += [f"byte {self.offset}"] if self.offset is not None else []
        return f"{self.code}: {self.message}" + (f" ({', '.join(where)})" if where else "")

    def at(self, *, entry: int, offset: int) -> WireError:
        """The same error with its place filled in, for codecs that see only their own section."""
        self.entry = entry if self.entry is None else self.entry
        self.offset = offset if self.offset is None else self.offset
        return self


class Truncated(WireError):
    """Bytes are missing at the end."""


class Malformed(WireError):
    """The layout is broken: lengths, padding or reserved bits."""


class Invalid(WireError):
    """The layout is right, what it says cannot be: unsorted indices, counts that disagree."""


class ChecksumMismatch(WireError):
    """A checksum differs from its bytes."""


class Unsupported(WireError):
    """A version, flag, record, type or codec that this reader does not know."""


class LimitExceeded(WireError):
    """More than the reader's limits allow."""


class SchemaMismatch(WireError):
    """Not the tensors that the caller said to expect."""
