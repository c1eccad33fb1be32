"""Functions of the host that the public functions call; ``wirecodec.gpu.entry`` has those of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.container.reader import ContainerHeader
from wirecodec.cpu import fast  # noqa: F401 - fills the table of fast forms
from wirecodec.cpu.add import add, average
from wirecodec.cpu.chunk_store import DecodedChunks
from wirecodec.cpu.columns import ArrayColumns
from wirecodec.cpu.decode import decode_chunks, only_tensor_of, tensors_of
from wirecodec.cpu.encode import encode, encode_many
from wirecodec.cpu.forms import MIN_TENSORS, current, describe, is_on
from wirecodec.cpu.step import step
from wirecodec.element_types import DTYPES
from wirecodec.limits import DecodeLimits

__all__ = [
    "add",
    "average",
    "can_add",
    "decode_values",
    "describe_targets",
    "encode",
    "encode_many",
    "only_tensor_of",
    "read_bytes",
    "replace_head",
    "step",
    "tensors_of",
]


_FLOAT32, _FLOAT64 = (DTYPES.index(np.dtype(dtype)) for dtype in (np.float32, np.float64))


def read_bytes(blob: Bytes, start: int, stop: int) -> bytes:
    """Return some bytes of a container."""
    return blob[start:stop].tobytes()


def replace_head(blob: Bytes, stop: int, head: bytes) -> Bytes:
    """Return a container with other bytes before its payload, which starts at ``stop``."""
    return np.concatenate([np.frombuffer(head, np.uint8), blob[stop:]])


def decode_values(data: Bytes, header: ContainerHeader, limits: DecodeLimits) -> DecodedChunks:
    """Decode a container to chunks by key."""
    return decode_chunks(data, header, limits, batches=current().decode_batches(data, header))


def can_add(target: Any) -> bool:
    """Tell whether values can be added to an array: float32 or float64, contiguous, writable."""
    if type(target) not in (np.ndarray, np.memmap) or target.dtype not in (np.float32, np.float64):
        return False
    return bool(target.flags.c_contiguous and target.flags.writeable)


def describe_targets(targets: Sequence[Any], sizes: Array) -> ArrayColumns | None:
    """Describe many arrays that values can be added to, with these numbers of elements.

    Returns None for few arrays, and if an array needs the check of ``can_add``.
    """
    if len(targets) < MIN_TENSORS or not is_on():
        return None
    columns = describe(targets)
    added = (columns.kinds == _FLOAT32) | (columns.kinds == _FLOAT64)
    return columns if (added & columns.writeable & (columns.sizes == sizes)).all() else None
