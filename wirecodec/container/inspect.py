"""``inspect``: what a container holds, read from its head alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import as_bytes
from wirecodec.container.header import open_head
from wirecodec.container.layout import MAJOR
from wirecodec.container.schema import Outlines
from wirecodec.limits import UNLIMITED
from wirecodec.registry import index_codec, transform, value_codec

__all__ = ["ContainerInfo", "EntryInfo", "inspect"]


@dataclass(frozen=True)
class EntryInfo:
    """One entry of the table, or all chunks of one tensor together.

    Attributes:
        name: the tensor's; the digits of its key where it has none ("0", or "00" beside ten others); of a
            fused entry, all names.
        size, nnz: elements, and stored numbers: as many elements, or real and imaginary parts of
            coefficients.
        dtype, shape: of the tensor; a fused entry is flat.
        transform: name of the one whose coefficients are stored, or "".
        index, value: names of the codecs, joined by "+" where chunks differ.
        index_bytes, value_bytes: lengths of the sections, padding not counted.
        chunks: entries of the table.
        members: (name, size) of each tensor of the entry; one, unless it is fused.
        map_bytes: length of the maps of values that were sorted, padding not counted.
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
class ContainerInfo:
    """What a head says.

    ``version`` as "major.minor"; ``nbytes`` of the whole container; the application's ``tag``; the entries.
    """

    version: str
    nbytes: int
    tag: bytes
    entries: tuple[EntryInfo, ...]


def inspect(blob: Any) -> ContainerInfo:
    """What a container holds; ``blob`` may end anywhere after the head.

    Checks the head and not the payload; a WireError where the head is broken.
    """
    head = open_head(as_bytes(blob), UNLIMITED, whole=False)
    outlines = list(Outlines(head, None))
    groups = {int(group[0, 0]): group[:, 0].tolist() for group in head.block.groups()}
    entries = []
    spans = head.spans
    for key, rows in zip(spans.keys.tolist(), np.split(head.table, spans.starts[1:]), strict=False):
        domain = int(rows["dtype"][0]) >> 4
        of_entry = [outlines[member] for member in groups.get(key, [key])]
        size = sum(outline.size for outline in of_entry)
        entries.append(
            EntryInfo(
                name=", ".join(outline.name for outline in of_entry),
                size=size,
                nnz=int(rows["r"].sum(dtype=np.int64)) * (transform(domain).width if domain else 1),
                dtype=of_entry[0].dtype.name,
                shape=(size,) if len(of_entry) > 1 else of_entry[0].shape,
                transform=transform(domain).name if domain else "",
                index="+".join(index_codec(i).name for i in np.unique(rows["index"]).tolist()),
                value="+".join(value_codec(i).name for i in np.unique(rows["value"]).tolist()),
                index_bytes=int(rows["index_len"].sum(dtype=np.int64)),
                value_bytes=int(rows["value_len"].sum(dtype=np.int64)),
                chunks=len(rows),
                members=tuple((outline.name, outline.size) for outline in of_entry),
                map_bytes=int(rows["map_len"].sum(dtype=np.int64)),
            )
        )
    return ContainerInfo(f"{MAJOR}.{head.minor}", head.nbytes, head.block.tag, tuple(entries))
