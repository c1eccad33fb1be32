"""TensorWriter: containers that are appended to a stream, which is closed with an index at the end."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.container.reader import ContainerHeader, read_header
from wirecodec.container.schema import TensorSpecs
from wirecodec.container.stream import UNIT_BYTES, Unit, iter_stream
from wirecodec.errors import Truncated, WireError
from wirecodec.files.index import PADDING, Part, Tensor, read_index, write_index
from wirecodec.files.source import LocalFile, connect
from wirecodec.limits import UNLIMITED
from wirecodec.pipeline import encode_many
from wirecodec.settings.rules import Key
from wirecodec.settings.scheme import SchemeLike, schemes_for
from wirecodec.tensors import TensorLike, as_bytes


class TensorWriter:
    """File of named tensors that is written; ``wc.open`` returns it.

    ``close`` writes the index. A block of ``with`` that raises leaves the file as it was before.

    Args:
        path: a path; or a URL, whose object is written when the file is closed.
        options: of the URL's file system.
        appends: whether a file that exists is continued.
        align: the payloads of containers start at multiples of so many bytes, a multiple of 8.
    """

    def __init__(self, path: str, options: dict[str, Any], *, appends: bool, align: int = 8) -> None:
        if align < 8 or align % 8 or align > 2**20:
            raise ValueError(f"align is {align}; it must be a multiple of 8, up to 2^20")
        is_remote = "://" in path
        if appends and is_remote:
            raise ValueError("an object of a bucket cannot be continued; write another one, with mode='w'")
        self._upload = connect(path, options) if is_remote else None
        self._path = path if is_remote else os.path.realpath(path)  # a link stays a link
        self._align, self._appends = align, appends and os.path.exists(path)
        self._parts: list[Part] = []
        self._start, self._is_broken = 0, False
        if self._appends:
            self._parts, self._start = _find_parts(path)
            self._temporary, mode = path, "r+b"
        else:
            folder = tempfile.gettempdir() if is_remote else os.path.dirname(self._path)
            self._temporary, mode = os.path.join(folder, f".wirecodec-{secrets.token_hex(8)}.tmp"), "xb"
        self._file: BinaryIO = open(self._temporary, mode)  # type: ignore[assignment]  # noqa: SIM115
        self._file.seek(self._start)
        self._at = self._start

    def append(
        self,
        tensors: Mapping[str, TensorLike],
        scheme: SchemeLike | Mapping[Key, SchemeLike] = None,
        **options: Any,
    ) -> None:
        """Encode tensors, each as a container of its own, and append them. A name that exists is replaced.

        Args:
            tensors: {name: tensor}, as for ``encode_many``.
            scheme, options: as for ``encode_many``.

        Raises:
            EncodeError: a scheme cannot carry its tensor.
            OSError: the file cannot be written.
        """
        schemes = schemes_for(dict(tensors), scheme)
        for name, tensor in tensors.items():
            self.append_blob(encode_many({name: tensor}, schemes[name], **options))

    def append_blob(self, blob: Any) -> None:
        """Append a container with names. Raises WireError if its header is not valid."""
        data = as_bytes(blob)
        header = read_header(data, UNLIMITED, private=True, based=True)
        tensors = _list_tensors(header)
        gap = -(self._at + header.payload) % self._align
        if gap:
            gap += self._align * max(0, -(-(UNIT_BYTES - gap) // self._align))
            self._write(Unit(PADDING, bytes(gap - UNIT_BYTES)).to_bytes())
        self._parts.append(_describe(data, self._at, tensors))
        self._write(data.data)

    def _write(self, data: Any) -> None:
        try:
            self._file.write(data)
        except BaseException:
            self._is_broken = True  # a part of the data may be in the file
            raise
        self._at += len(data)

    def close(self) -> None:
        """Write the index and the end. The file takes its name, or the object is written, after that.

        Raises:
            OSError: the file cannot be written, or an earlier write has failed. It is as it was before.
        """
        if self._file.closed:
            return
        try:
            if self._is_broken:
                raise OSError(f"{self._path}: a write has failed, so the file was left as it was before")
            self._write(write_index(self._parts, self._at))
            self._file.truncate()
            self._file.flush()
            os.fsync(self._file.fileno())
        except BaseException:
            self.discard()
            raise
        self._file.close()
        if self._upload is not None:
            fs, path = self._upload
            try:
                fs.put_file(self._temporary, path)
            finally:
                os.unlink(self._temporary)
        elif not self._appends:
            with suppress(FileNotFoundError):
                os.chmod(self._temporary, stat.S_IMODE(os.stat(self._path).st_mode))
            os.replace(self._temporary, self._path)

    def discard(self) -> None:
        """Leave the file as it was before this writer."""
        if self._file.closed:
            return
        with suppress(OSError):
            self._file.close()  # writes what is left of a buffer
        if self._appends:
            os.truncate(self._temporary, self._start)
        else:
            with suppress(OSError):
                os.unlink(self._temporary)

    def __del__(self) -> None:
        """Leave the file as it was, with a ResourceWarning, if nobody has closed the writer."""
        file = getattr(self, "_file", None)  # it is missing if the file could not be opened
        if file is not None and not file.closed:
            warnings.warn(
                f"{self._path} was not closed, so it is as it was before",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
            self.discard()

    def __enter__(self) -> TensorWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        (self.close if kind is None else self.discard)()


def _list_tensors(header: ContainerHeader) -> tuple[Tensor, ...]:
    """Return names, shapes and types of a container's tensors. Raises ValueError if it has no names."""
    specs = TensorSpecs(header, None)
    if not header.extension.is_named and len(specs):
        raise ValueError("the container has no names; pass names=True to encode_many")
    return tuple((spec.name, spec.shape, spec.dtype) for spec in specs)


def _describe(data: Bytes, offset: int, tensors: tuple[Tensor, ...]) -> Part:
    """Return the row of a container."""
    return Part(offset, data.size, hashlib.sha256(data.data).digest(), tensors)


def _find_parts(path: str) -> tuple[list[Part], int]:
    """Return the containers of a file, and where the next one goes.

    A stream without an end, such as of a writer that was killed, has its complete containers.
    """
    source = LocalFile(path)
    try:
        return read_index(source.size, source.read, UNLIMITED).to_parts(), source.size
    except Truncated:
        pass
    finally:
        source.close()
    parts: list[Part] = []
    at = 0
    with open(path, "rb") as file:
        try:
            for part in iter_stream(file, limits=UNLIMITED):
                if not isinstance(part, Unit):
                    header = read_header(part, UNLIMITED, private=True, based=True)
                    parts.append(_describe(part, at, _list_tensors(header)))
                at += part.nbytes
        except WireError as error:
            if not parts:
                raise
            if error.code not in ("prefix", "container", "unit"):  # a damaged part, not one that is cut
                raise
            if error.code == "container":
                _require_sound_header(path, at)
    return parts, at


def _require_sound_header(path: str, at: int) -> None:
    """Raise WireError if the header of the last container is damaged, since others may follow then."""
    with suppress(Truncated):  # the header itself is cut
        read_header(np.memmap(path, np.uint8, "r", at), UNLIMITED, whole=False, private=True, based=True)
