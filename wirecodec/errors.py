"""Exceptions: one for encoding, a family of eight for decoding, one for devices.

``EncodeError`` and ``WireError`` are ``ValueError``. A decoder raises only ``WireError``, whatever the bytes
are. A schema or an ``out`` argument that is not valid raises ValueError or TypeError.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
    "number_of_container",
]


class EncodeError(ValueError):
    """Error of encoding: a scheme is not valid, or it cannot carry a tensor.

    Attributes:
        reason: the message without its place.
        tensor: the tensor's name, or None if it has none.
        position: row-major number of the first element at fault, or None if it is no single element.
    """

    def __init__(self, reason: str, *, tensor: str | None = None, position: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.tensor = tensor
        self.position = position

    def __str__(self) -> str:
        place = [f"tensor {self.tensor!r}"] if self.tensor is not None else []
        place += [f"element {self.position}"] if self.position is not None else []
        return f"{', '.join(place)}: {self.reason}" if place else self.reason

    def of(self, tensor: str | None) -> EncodeError:
        """Return the same error with a tensor's name, unless it has one."""
        if self.tensor is not None:
            return self
        return EncodeError(self.reason, tensor=tensor, position=self.position)


class DeviceError(RuntimeError):
    """Error of a device: no GPU is present, or its driver or CuPy is missing."""


class WireError(ValueError):
    """Error of decoding: the bytes are not a container that this reader accepts (formats/SPEC.md, section 7).

    Attributes:
        code: stable string from section 7 or from the codec's page; programs compare this.
        message: text for people.
        offset: first byte of the faulty part in the container, or None.
        entry: number of the table's entry, or None.
        container: number of the container in the list that ``decode_add`` got, or None.
    """

    def __init__(
        self, code: str, message: str, *, offset: int | None = None, entry: int | None = None
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.offset = offset
        self.entry = entry
        self.container: int | None = None

    def __str__(self) -> str:
        place = [f"container {self.container}"] if self.container is not None else []
        place += [f"entry {self.entry}"] if self.entry is not None else []
        place += [f"byte {self.offset}"] if self.offset is not None else []
        return f"{self.code}: {self.message}" + (f" ({', '.join(place)})" if place else "")

    def at(self, *, entry: int, offset: int) -> WireError:
        """Set entry and offset unless they are set; codecs know only their own section."""
        self.entry = entry if self.entry is None else self.entry
        self.offset = offset if self.offset is None else self.offset
        return self


@contextmanager
def number_of_container(number: int | None) -> Iterator[None]:
    """Set the number of the container in a WireError that is raised; None sets nothing."""
    try:
        yield
    except WireError as error:
        error.container = number if error.container is None else error.container
        raise


class Truncated(WireError):
    """Error of decoding: bytes are missing at the end."""


class Malformed(WireError):
    """Error of decoding: a length, padding or reserved bits are wrong."""


class Invalid(WireError):
    """Error of decoding: the layout is right, but its content is impossible, such as unsorted indices."""


class ChecksumMismatch(WireError):
    """Error of decoding: a checksum does not match its bytes."""


class Unsupported(WireError):
    """Error of decoding: this reader does not know a version, flag, record, type or codec."""


class LimitExceeded(WireError):
    """Error of decoding: the container exceeds one of the reader's ``DecodeLimits``."""


class SchemaMismatch(WireError):
    """Error of decoding: the tensors are not those of the caller's schema."""
