"""Where CuPy's arrays, and torch's through DLPack, come in: what the pipeline calls for what lies on a GPU.

CuPy is imported here, by ``cupy_device``; everything behind this door works on any ``Device``. Launches go to
the current stream of the device that the arrays lie on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from wirecodec.arrays import BFLOAT16, Bytes, DeviceFlat, as_device_flat, on_gpu
from wirecodec.chunk import Part, element_type
from wirecodec.container import Head
from wirecodec.errors import DeviceError, EncodeError
from wirecodec.gpu import decode as decoding
from wirecodec.gpu import encode as encoding
from wirecodec.kernels.cuda.device import CupyDevice, cupy_device
from wirecodec.limits import DecodeLimits
from wirecodec.outline import Outline
from wirecodec.scheme import Scheme
from wirecodec.sparse import SparseTensor

__all__ = ["add", "can_add", "encode", "encode_many", "on_host", "sparse"]

Decoder = Callable[..., dict[int, list[Part]]]
"""The pipeline's: (data, head, limits, read) -> every tensor's parts."""


@contextmanager
def _device_of(array: Any) -> Iterator[CupyDevice]:
    """The device that a CuPy array lies on, made the current one."""
    cupy = cupy_device().cupy
    with cupy.cuda.Device(array.device.id):
        yield cupy_device()


def encode(tensor: Any, scheme: Scheme, seed: int, tag: bytes) -> Bytes:
    """A tensor that lies on a GPU as a container, a uint8 CuPy array there. EncodeError, DeviceError."""
    flat: DeviceFlat = as_device_flat(tensor, cupy_device().cupy)
    with _device_of(flat.words) as device:
        blob: Bytes = encoding.encoded(device, flat, scheme, seed, tag)
        return blob


def encode_many(
    tensors: Mapping[str, Any], schemes: Mapping[str, Scheme], seed: int, tag: bytes, *, names: bool
) -> Bytes:
    """Named tensors that lie on one GPU, in the order of their keys, as one container there."""
    cupy = cupy_device().cupy
    flats = {}
    for name, tensor in tensors.items():
        try:
            flats[name] = as_device_flat(tensor, cupy)
        except EncodeError as error:
            raise error.of(name) from None
    if len({flat.words.device.id for flat in flats.values()}) > 1:
        raise EncodeError("the tensors lie on several GPUs; bring them to one")
    with _device_of(next(iter(flats.values())).words) as device:
        blob: Bytes = encoding.encoded_many(device, flats, schemes, seed, tag, names=names)
        return blob


def on_host(blob: Any) -> Bytes:
    """A container's bytes, copied from a GPU."""
    cupy = cupy_device().cupy
    there = cupy.ascontiguousarray(cupy.asarray(blob)).reshape(-1)
    with _device_of(there) as device:
        found: Bytes = device.get(there.view(np.uint8))
        return found


def can_add(target: Any) -> bool:
    """Whether an array on a GPU can be added to: CuPy's, float32 or float64, contiguous."""
    kind = cupy_device().cupy.ndarray
    return isinstance(target, kind) and target.dtype in (np.float32, np.float64) and target.flags.c_contiguous


def add(
    data: Bytes, head: Head, targets: Sequence[Any], scale: float, limits: DecodeLimits, decoder: Decoder
) -> None:
    """scale * values into arrays on one GPU, once all are decoded; ValueError where one is elsewhere."""
    if not all(map(on_gpu, targets)) or len({target.device.id for target in targets}) > 1:
        raise ValueError("out must lie on one device, all of it")
    with _device_of(targets[0]) as device:
        parts = _parts(device, data, head, limits, decoder)
        types = _types(head)
        for key, target in enumerate(targets):
            for part in parts[key]:
                decoding.add(device, target.reshape(-1), part, types[key], scale)


def sparse(
    data: Bytes, head: Head, outlines: Sequence[Outline], limits: DecodeLimits, decoder: Decoder
) -> list[SparseTensor]:
    """The tensors of a container, their arrays on the current GPU.

    DeviceError where CuPy cannot hold them: bfloat16, and indices above 2^31.
    """
    device = cupy_device()
    types = _types(head)
    for key, outline in enumerate(outlines):
        if types[key] == BFLOAT16:
            raise DeviceError(f"{outline.name!r} is bfloat16, which CuPy has not: decode_add into float32")
        if outline.size > 2**31:
            raise DeviceError(f"{outline.name!r} has {outline.size} elements; a GPU decodes 2^31 at most")
    parts = _parts(device, data, head, limits, decoder)
    found = []
    for key, outline in enumerate(outlines):
        indices, words = decoding.joined(device, parts[key], outline.size)
        found.append(SparseTensor._of(indices, words.view(types[key]), outline.shape, limits.max_dense))
    return found


def _parts(
    device: CupyDevice, data: Bytes, head: Head, limits: DecodeLimits, decoder: Decoder
) -> dict[int, list[Part]]:
    """Every tensor's parts on the device; those of fused and of transformed tensors by way of the host."""
    if not head.extension.groups and not head.extension.lengths:
        return decoder(data, head, limits, partial(decoding.decode_chunk, device))
    found = decoder(data, head, limits)
    return {key: [decoding.on_device(device, part) for part in parts] for key, parts in found.items()}


def _types(head: Head) -> dict[int, np.dtype[Any]]:
    """The element type of each key; members of a fused entry have that of the first."""
    types = {int(row["key"]): element_type(row) for row in head.table}
    for group in head.extension.groups:
        types.update(dict.fromkeys(group[:, 0].tolist(), types[int(group[0, 0])]))
    return types
