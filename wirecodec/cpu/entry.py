"""Functions of the host that the public functions call; ``wirecodec.gpu.entry`` has those of a GPU."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.container.reader import ContainerHeader
from wirecodec.cpu import fast  # noqa: F401 - fills the table of fast forms
from wirecodec.cpu.add import add, average, can_add, describe_targets
from wirecodec.cpu.chunk_store import DecodedChunks
from wirecodec.cpu.decode import decode_chunks, only_tensor_of, some_tensors_of, tensors_of
from wirecodec.cpu.encode import encode, encode_many
from wirecodec.cpu.forms import current
from wirecodec.cpu.step import step
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
    "some_tensors_of",
    "step",
    "tensors_of",
]


def read_bytes(blob: Bytes, start: int, stop: int) -> bytes:
    """Return some bytes of a container."""
    return blob[start:stop].tobytes()


def replace_head(blob: Bytes, stop: int, head: bytes) -> Bytes:
    """Return a container with other bytes before its payload, which starts at ``stop``."""
    return np.concatenate([np.frombuffer(head, np.uint8), blob[stop:]])


def decode_values(data: Bytes, header: ContainerHeader, limits: DecodeLimits) -> DecodedChunks:
    """Decode a container to chunks by key."""
    return decode_chunks(data, header, limits, batches=current().decode_batches(data, header))
