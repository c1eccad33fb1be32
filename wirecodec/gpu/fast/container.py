"""A container on a GPU from batches and from entries of the plain way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.container import writer
from wirecodec.container.reader import read_header
from wirecodec.container.writer import Entry
from wirecodec.gpu.fast.batch import Batch
from wirecodec.kernels.cuda import batch as tables
from wirecodec.kernels.cuda.device import Device
from wirecodec.limits import UNLIMITED
from wirecodec.tensors import as_bytes


def assemble(
    device: Device, batches: Sequence[Batch], entries: Sequence[Entry], block: bytes, *, feedback: bool
) -> tuple[Any, Bytes | None]:
    """Write a container on the device.

    Args:
        device: of the batches.
        batches: encoded.
        entries: of other tensors; their sections are on the device or on the host.
        block: the extension block.
        feedback: whether the batches have residuals, from which they subtract what is sent.

    Returns:
        The container, and with feedback a copy on the host.
    """
    parts = [batch.rows() for batch in batches] + ([writer.rows_of(entries)] if entries else [])
    table: Any = np.concatenate(parts)
    order = np.lexsort((table["base"], table["key"]))
    lengths = np.array([table[name] for name in writer.LENGTHS], np.int64)
    padded = (lengths + 7) & -8
    payload = writer.PREFIX_BYTES + writer.TABLE.itemsize * table.size + len(block)
    ends = np.empty(table.size, np.int64)
    ends[order] = payload + np.cumsum(padded.sum(axis=0)[order])
    starts = ends - padded.sum(axis=0)
    total = int(ends[order[-1]])
    whole = device.empty(total + 4 * table.size, np.uint8)  # the checksums follow the container
    device.clear(whole)
    blob, crcs = whole[:total], whole[total:].view(np.uint32)
    first = 0
    for batch, part in zip(batches, parts, strict=False):
        here = slice(first, first + part.size)
        batch.write(np.array([starts[here], starts[here] + padded[0, here]]).T, blob, feedback=feedback)
        first += part.size
    for entry, start in zip(entries, starts[first:].tolist(), strict=True):
        at = start
        for section in entry.parts:
            move = device.write if isinstance(section, np.ndarray) else device.copy
            move(section, blob[at : at + section.size])
            at += writer.padded(section.size)
    tables.write_checksums(device, np.array([starts, ends]), blob, crcs)
    copy = device.get(whole if feedback else crcs).view(np.uint8)
    table["crc"] = copy[copy.size - 4 * table.size :].view(np.uint32)
    header = np.frombuffer(writer.write_header(table[order], block, total), np.uint8)
    device.write(header, blob[:payload])
    if not feedback:
        return blob, None
    copy[:payload] = header
    return blob, as_bytes(copy[:total])


def find_sections(on_host: Bytes, entries: Sequence[Entry]) -> list[list[Bytes]]:
    """Return the sections of some entries in a container on the host."""
    if not entries:
        return []
    header = read_header(on_host, UNLIMITED, sizes_trusted=True)
    table = header.table
    lengths = np.array([table[name] for name in writer.LENGTHS], np.int64)
    padded = (lengths + 7) & -8
    starts = header.payload + np.cumsum(padded.sum(axis=0)) - padded.sum(axis=0)
    rows = {
        row: number
        for number, row in enumerate(zip(table["key"].tolist(), table["base"].tolist(), strict=True))
    }
    found = []
    for entry in entries:
        number = rows[entry.key, entry.base]
        at, sections = int(starts[number]), []
        for length, step in zip(lengths[:, number].tolist(), padded[:, number].tolist(), strict=True):
            sections.append(on_host[at : at + length])
            at += step
        found.append(sections)
    return found
