"""Files with a checksum of their name and contents: neither a damaged nor a renamed file is ever used.

Unpickling damaged bytes can raise any exception, and damaged machine code can run. The contents are therefore
compared with their checksum first. It detects accidents only: who can write to the cache can run code.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid

CHECKSUM_BYTES = 32


def read_checked(path: str) -> bytes:
    """Return the contents of a file that ``write_checked`` wrote.

    Raises:
        OSError: the file cannot be read; FileNotFoundError if it is absent.
        ValueError: it is damaged, or was written under another name.
    """
    with open(path, "rb") as file:
        checksum, contents = file.read(CHECKSUM_BYTES), file.read()
    if checksum != _compute_checksum(path, contents):
        raise ValueError("its checksum does not match its contents")
    return contents


def write_checked(path: str, contents: bytes) -> None:
    """Write contents after their checksum; readers see the file as it was before, or complete.

    Raises:
        OSError: the file cannot be written.
    """
    unique = uuid.uuid4().hex[:16]
    temporary = f"{path}.tmp.{unique}"
    try:
        with open(temporary, "wb") as file:
            file.write(_compute_checksum(path, contents))
            file.write(contents)
        if os.path.isdir(path):
            os.rename(path, f"{path}.old.{unique}")
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _compute_checksum(path: str, contents: bytes) -> bytes:
    """Return the SHA-256 of a file's name and contents."""
    total = hashlib.sha256(os.path.basename(path).encode(errors="surrogateescape") + b"\0")
    total.update(contents)
    return total.digest()
