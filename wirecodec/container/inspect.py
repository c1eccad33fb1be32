"""``inspect``: a container's content as its header describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.container.annotations import CONTAINER
from wirecodec.container.based import BASE, INDEX_CODECS, VALUE_CODECS, BaseRecord
from wirecodec.container.reader import read_header
from wirecodec.container.records import find_unknown_records
from wirecodec.container.schema import TensorSpecs
from wirecodec.container.writer import MAJOR, PREFIX_BYTES, TABLE
from wirecodec.element_types import name_of
from wirecodec.limits import UNLIMITED
from wirecodec.registry import index_codecs, transform, value_codecs
from wirecodec.tensors import as_bytes

_INDEX_IDS, _VALUE_IDS = list(INDEX_CODECS), list(VALUE_CODECS)
DRAFT: str | None = None
"""Version that is not released, or None: the numbers with the status ``draft`` of formats/registry.toml."""


@dataclass(frozen=True)
class EntryInfo:
    """Entries of one tensor, one fused entry, or the entries of a vector of joined tensors.

    Attributes:
        name: the tensor's name, or its key's digits if it has none; all names of several tensors.
        size: number of elements.
        nnz: number of stored elements, or of real and imaginary parts of stored coefficients.
        dtype: name of the element type.
        shape: the tensor's; (size,) for several.
        transform: name of the transform whose coefficients are stored, or "".
        index: name of the index codec; names are joined by "+" if chunks differ. A private one that is not
            registered here has its id, such as "0x80".
        value: name of the value codec; likewise.
        index_bytes: length of the index sections, without padding.
        value_bytes: length of the value sections, without padding.
        chunks: number of entries of the table.
        members: (name, size) of each tensor; several if they share an entry or are transformed as one vector.
        map_bytes: length of the maps of sorted values, without padding.
    """

    name: str
    size: int
    nnz: int
    dtype: str
    shape: tuple[int, ...]
    transform: str
    index: str
    value: str
    index_bytes: int
    value_bytes: int
    chunks: int
    members: tuple[tuple[str, int], ...]
    map_bytes: int


@dataclass(frozen=True)
class RecordInfo:
    """Record of a type that is not known here; ``wirecodec`` reads no container with a critical one.

    Attributes:
        type: number of the type; 0x8000 to 0xFFEF are private.
        body: its bytes.
    """

    type: int
    body: bytes


@dataclass(frozen=True)
class PatchInfo:
    """Content of a patch of weights, beside its entries.

    Attributes:
        before: {tensor: digest} in the base, of tensors that change; a new tensor is not in it.
        after: {tensor: digest} in the target, of tensors that change or are new.
        removed: {tensor: digest} of tensors that are removed.
        unchanged: number of all other tensors; 0 if ``touched``.
        rest: sum of their digests with their names; 0 if ``touched``.
        touched: whether the digests are those of changed elements, not of whole tensors.
    """

    before: dict[str, int]
    after: dict[str, int]
    removed: dict[str, int]
    unchanged: int
    rest: int
    touched: bool

    @property
    def added(self) -> tuple[str, ...]:
        """Names of the new tensors."""
        return tuple(name for name in self.after if name not in self.before)


@dataclass(frozen=True)
class ContainerInfo:
    """Content of a container, from its header.

    Attributes:
        version: version of the wire format, "major.minor".
        nbytes: length of the whole container, in bytes.
        tag: the application's bytes.
        entries: an ``EntryInfo`` per tensor, fused entry or vector of joined tensors.
        meta: {name: text} about the container.
        tensor_meta: {tensor: {name: text}} about single tensors.
        patches: names of the tensors whose absent elements are unchanged.
        digest: SHA-256 of names, shapes and types, if it is stored in place of the names; else no bytes.
        records: records of types that are not known here, such as private ones.
        patch: base and target of a patch of weights; None for other containers.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> info = wc.inspect(wc.encode(np.array([0, 3, 0, 4], "f4"), tag=b"step 7", meta={"unit": "m"}))
        >>> info.version, info.nbytes, info.tag, len(info.entries), info.meta
        ('1.1', 136, b'step 7', 1, {'unit': 'm'})
    """

    version: str
    nbytes: int
    tag: bytes
    entries: tuple[EntryInfo, ...]
    meta: dict[str, str] = field(default_factory=dict)
    tensor_meta: dict[str, dict[str, str]] = field(default_factory=dict)
    patches: tuple[str, ...] = ()
    digest: bytes = b""
    records: tuple[RecordInfo, ...] = ()
    patch: PatchInfo | None = None

    @property
    def is_draft(self) -> bool:
        """Whether ``version`` is a draft: later releases may refuse the container or decode it otherwise."""
        return self.version == DRAFT


def count_stored(blob: Any) -> int:
    """Count the elements that a container of this process stores, from its table, without checks."""
    data = as_bytes(blob)
    count = int.from_bytes(data[8:12].tobytes(), "little")
    table = data[PREFIX_BYTES : PREFIX_BYTES + TABLE.itemsize * count].view(TABLE)
    domains = table["dtype"] >> 4
    stored = int(table["r"].sum(dtype=np.int64))
    for domain in np.unique(domains[domains > 0]).tolist() if domains.any() else ():
        extra = transform(domain).width - 1
        stored += extra * int(table["r"][domains == domain].sum(dtype=np.int64))
    return stored


def _join_names(codecs: Mapping[int, Any], of_patches: Mapping[int, str], ids: Array) -> str:
    """Return the names of some codecs, or the ids of those that are not registered."""
    names = {
        i: codecs[i].name if i in codecs else of_patches.get(i, f"{i:#x}") for i in np.unique(ids).tolist()
    }
    return "+".join(names.values())


def _read_patch(body: memoryview, names: Sequence[str]) -> PatchInfo:
    """Read the record of a patch of weights. Raises Malformed or Invalid."""
    record = BaseRecord.read(body, names)
    before, after = (dict(zip(names, column, strict=True)) for column in record.digests.T.tolist())
    return PatchInfo(
        before={name: digest for name, digest in before.items() if digest},
        after=after,
        removed=record.removed,
        unchanged=record.unchanged,
        rest=record.rest,
        touched=record.touched,
    )


def inspect(blob: Any, *, private: bool = False) -> ContainerInfo:
    """Describe a container from its header; the payload is not checked.

    Args:
        blob: any buffer of bytes, which may end anywhere after the header.
        private: True to describe also containers with private codecs that are not registered here.

    Returns:
        A ContainerInfo.

    Raises:
        WireError: the header is not valid.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> entry = wc.inspect(wc.encode(np.array([0, 3, 0, 4], "f4"), "nonzero | rice | raw")).entries[0]
        >>> entry.size, entry.nnz, entry.index, entry.value_bytes
        (4, 2, 'rice', 8)
    """
    data = as_bytes(blob)
    header = read_header(data, UNLIMITED, whole=False, private=private, based=True)
    base, table = header.extension.bodies.get(BASE), header.table
    if base is None and (np.isin(table["index"], _INDEX_IDS) | np.isin(table["value"], _VALUE_IDS)).any():
        read_header(data, UNLIMITED, whole=False, private=private)  # raises the error of their ids
    specs = list(TensorSpecs(header, None))
    groups = {int(members[0, 0]): members[:, 0].tolist() for members in header.extension.sharing()}
    entries = []
    spans = header.spans
    for key, rows in zip(spans.keys.tolist(), np.split(header.table, spans.starts[1:]), strict=False):
        domain = int(rows["dtype"][0]) >> 4
        of_entry = [specs[member] for member in groups.get(key, [key])]
        size = sum(spec.size for spec in of_entry)
        entries.append(
            EntryInfo(
                name=", ".join(spec.name for spec in of_entry),
                size=size,
                nnz=int(rows["r"].sum(dtype=np.int64)) * (transform(domain).width if domain else 1),
                dtype=name_of(of_entry[0].dtype),
                shape=(size,) if len(of_entry) > 1 else of_entry[0].shape,
                transform=transform(domain).name if domain else "",
                index=_join_names(index_codecs(), INDEX_CODECS, rows["index"]),
                value=_join_names(value_codecs(), VALUE_CODECS, rows["value"]),
                index_bytes=int(rows["index_len"].sum(dtype=np.int64)),
                value_bytes=int(rows["value_len"].sum(dtype=np.int64)),
                chunks=len(rows),
                members=tuple((spec.name, spec.size) for spec in of_entry),
                map_bytes=int(rows["map_len"].sum(dtype=np.int64)),
            )
        )
    extension = header.extension
    meta, tensor_meta = dict[str, str](), dict[str, dict[str, str]]()
    for key, name, text in extension.meta():
        texts = meta if key == CONTAINER else tensor_meta.setdefault(specs[key].name, {})
        texts[name] = text
    return ContainerInfo(
        version=f"{MAJOR}.{header.minor}",
        nbytes=header.nbytes,
        tag=extension.tag,
        entries=tuple(entries),
        meta=meta,
        tensor_meta=tensor_meta,
        patches=tuple(specs[key].name for key in extension.patches()),
        digest=extension.digest,
        records=tuple(
            RecordInfo(kind, body) for kind, body in find_unknown_records(memoryview(header.block))
        ),
        patch=None if base is None else _read_patch(base, [spec.name for spec in specs]),
    )
