"""TensorFile: a closed stream, of which single tensors are read (formats/spec/stream.md, section 6)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import ChecksumMismatch, LimitExceeded
from wirecodec.files.index import TensorEntry, read_index
from wirecodec.files.source import Source
from wirecodec.limits import DecodeLimits
from wirecodec.pipeline import decode_listed
from wirecodec.sparse import SparseTensor

TAIL = 2**16
"""Bytes at the end of a file that are read at once: the index of about 600 tensors is among them."""


class TensorFile(Mapping[str, SparseTensor]):
    """Open file of named tensors: a mapping from names to tensors, which are read one by one.

    ``wc.open`` returns it. Threads may read at once. Only the index is in memory.

    Args:
        source: of the bytes.
        limits: bounds on the index and on each container.
        verify: whether the SHA-256 of a container is compared before it is decoded. Its CRC-32 always is.
    """

    def __init__(self, source: Source, limits: DecodeLimits, *, verify: bool = False) -> None:
        self._source, self._limits, self._verify = source, limits, verify
        self._index = read_index(source.size, source.read, limits, TAIL)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._index.names)

    def __iter__(self) -> Iterator[str]:
        """Yield the names in the order of the file."""
        return iter(self._index.names)

    def __contains__(self, name: object) -> bool:
        """Return whether a tensor has the name."""
        try:
            return isinstance(name, str) and self._index.locate(name) >= 0
        except KeyError:
            return False

    def entry(self, name: str) -> TensorEntry:
        """Return shape, type and place of a tensor, without reading it. Raises KeyError."""
        return self._index.find(self._index.locate(name), name)

    def entries(self) -> Iterator[TensorEntry]:
        """Yield shape, type and place of all tensors, in the order of the file."""
        return (self._index.find(number, name) for name, number in self._index.names.items())

    def versions(self, name: str) -> list[TensorEntry]:
        """Return all tensors of a name, oldest first; the last one counts. Raises KeyError."""
        self._index.locate(name)
        return [row for row in self._index.rows if row.name == name]

    def __getitem__(self, name: str) -> SparseTensor:
        """Read and decode a tensor.

        Raises:
            KeyError: no tensor has the name.
            WireError: its container is not valid, or has other tensors than the index says.
            OSError: the file cannot be read.
        """
        return self._read(name)[0]

    def dense(self, name: str) -> Array:
        """Read a tensor as a dense array of its own; errors as for ``file[name]``.

        It is faster than ``file[name].to_dense()`` if all elements are stored raw: they are not copied.
        """
        tensor, blob = self._read(name)
        values = tensor.values
        if tensor.nnz < tensor.size or not np.may_share_memory(values, blob) or not blob.flags.writeable:
            return tensor.to_dense()
        start = values.__array_interface__["data"][0] - blob.__array_interface__["data"][0]
        return blob[start : start + values.nbytes].view(values.dtype).reshape(tensor.shape)

    def _read(self, name: str) -> tuple[SparseTensor, Bytes]:
        """Return a tensor, and its container in memory."""
        number = self._index.locate(name)
        entry = self._index.find(number, name)
        if entry.nbytes > self._limits.max_bytes:
            limit = f"{entry.nbytes} bytes of {name!r}; the limit is {self._limits.max_bytes}"
            raise LimitExceeded("max-bytes", limit)
        blob = self._source.read(entry.offset, entry.offset + entry.nbytes)
        if self._verify and hashlib.sha256(blob.data).digest() != self._index.digest_of(number):
            raise ChecksumMismatch("index-digest", f"the container of {name!r} is not the index's")
        rows = self._index.rows_of(number)
        listed = [entry] if len(rows) == 1 else [self._index.rows[i] for i in rows]
        specs = {one.name: (one.shape, one.dtype) for one in listed}
        return decode_listed(blob, specs, name, self._limits), blob

    def read(self, names: Iterable[str] | None = None) -> dict[str, SparseTensor]:
        """Read several tensors; errors as for one.

        Args:
            names: of the tensors; None for all.
        """
        return {name: self[name] for name in (self if names is None else names)}

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        """Return the number of tensors and bytes."""
        return f"<TensorFile, {len(self)} tensors, {self._source.size:,} bytes>"
