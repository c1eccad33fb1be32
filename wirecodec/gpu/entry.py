"""Where CuPy's arrays, and torch's through DLPack, come in: what the pipeline calls for what lies on a GPU.

CuPy is imported here, by ``cupy_device``; everything behind this door works on any ``Device``. Launches go to
the current stream of the device that the arrays lie on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from wirecodec.arrays import BFLOAT16, DTYPES, Array, Bytes, DeviceFlat, as_bytes, as_device_flat, on_gpu
from wirecodec.container.header import Head, read_header
from wirecodec.container.schema import TensorSpecs, dtypes_of
from wirecodec.cpu.decode import decode_chunks
from wirecodec.errors import DeviceError, EncodeError
from wirecodec.gpu import decode as decoding
from wirecodec.gpu import dense
from wirecodec.gpu import encode as encoding
from wirecodec.gpu import step as steps
from wirecodec.gpu.fuse import parted
from wirecodec.kernels.cuda.device import CupyDevice, cupy_device, device_of
from wirecodec.limits import UNLIMITED, DecodeLimits
from wirecodec.scheme import Scheme
from wirecodec.sparse import SparseTensor
from wirecodec.step import StepInput, StepResult
from wirecodec.support import DecodedChunk

__all__ = [
    "add",
    "can_add",
    "count_nonzero",
    "encode",
    "encode_many",
    "mean",
    "octets_of",
    "on_host",
    "step",
    "tensors_of",
    "zeros",
]


def encode(tensor: Any, scheme: Scheme, seed: int, tag: bytes) -> Bytes:
    """A tensor that lies on a GPU as a container, a uint8 CuPy array there. EncodeError, DeviceError."""
    flat: DeviceFlat = as_device_flat(tensor, cupy_device().cupy)
    with device_of(flat.words) as device:
        blob: Bytes = encoding.encoded(device, flat, scheme, seed, tag)
        return blob


def encode_many(
    tensors: Mapping[str, Any],
    schemes: Mapping[str, Scheme],
    seed: int,
    tag: bytes,
    *,
    names: bool,
    fuse: int,
) -> Bytes:
    """Named tensors that lie on one GPU, in the order of their keys, as one container there."""
    flats = _flats(tensors)
    with device_of(next(iter(flats.values())).words) as device:
        blob: Bytes = encoding.encoded_many(device, flats, schemes, seed, tag, names=names, fuse=fuse)
        return blob


def _flats(tensors: Mapping[str, Any]) -> dict[str, DeviceFlat]:
    """Named tensors as words; EncodeError where they do not all lie on one GPU."""
    cupy = cupy_device().cupy
    flats = {}
    for name, tensor in tensors.items():
        if not on_gpu(tensor):
            raise EncodeError("lies on the host, others on a GPU; bring all to one of them", tensor=name)
        try:
            flats[name] = as_device_flat(tensor, cupy)
        except EncodeError as error:
            raise error.of(name) from None
    if len({flat.words.device.id for flat in flats.values()}) > 1:
        raise EncodeError("the tensors lie on several GPUs; bring them to one")
    return flats


def step(tensors: Mapping[str, Any], wanted: StepInput) -> StepResult:
    """A Compressor's step of named tensors that lie on one GPU; residuals may lie anywhere.

    EncodeError names the tensor.
    """
    flats = _flats(tensors)
    with device_of(next(iter(flats.values())).words) as device:
        taken = {}
        for name, job in wanted.jobs.items():
            residual = job.residual
            there = device.put(residual) if residual is not None and not on_gpu(residual) else residual
            try:
                taken[name] = steps.take(device, flats[name], replace(job, residual=there))
            except EncodeError as error:
                raise error.of(name) from None
        blob = steps.encode(device, taken, wanted.seed, names=wanted.names, fuse=wanted.fuse)
        octets = as_bytes(device.get(blob))
        head = read_header(octets, UNLIMITED, sizes_trusted=True)
        parts = _parts(device, octets, head, UNLIMITED)
        left = {}
        for key, (name, each) in enumerate(taken.items()):
            try:
                left[name] = steps.left(device, each, parts[key])
            except EncodeError as error:
                raise error.of(name) from None
        return StepResult(
            blob,
            octets,
            {name: _sent(device, flats[name], parts[key]) for key, name in enumerate(taken)},
            {name: each for name, each in left.items() if each is not None},
            {name: each.selector for name, each in taken.items() if each.selector is not None},
        )


def _sent(device: CupyDevice, flat: DeviceFlat, parts: Sequence[DecodedChunk]) -> SparseTensor:
    """A tensor's parts, on the device where CuPy can hold them."""
    indices, words = decoding.joined(device, parts, flat.words.size)
    if flat.dtype == BFLOAT16:
        indices, words = None if indices is None else device.get(indices), device.get(words)
    return SparseTensor._of(indices, words.view(flat.dtype), flat.shape, UNLIMITED.max_dense)


def on_host(array: Any) -> Array:
    """A copy of a CuPy array, or of what offers the same interface."""
    cupy = cupy_device().cupy
    there = cupy.ascontiguousarray(cupy.asarray(array))
    with device_of(there) as device:
        found: Array = device.get(there.reshape(-1)).reshape(there.shape)
        return found


def octets_of(blob: Any) -> Bytes:
    """A container's bytes, copied from a GPU."""
    cupy = cupy_device().cupy
    found: Bytes = on_host(cupy.ascontiguousarray(cupy.asarray(blob)).reshape(-1).view(np.uint8))
    return found


def can_add(target: Any) -> bool:
    """Whether an array on a GPU can be added to: CuPy's, float32 or float64, contiguous."""
    kind = cupy_device().cupy.ndarray
    return isinstance(target, kind) and target.dtype in (np.float32, np.float64) and target.flags.c_contiguous


def add(data: Bytes, head: Head, targets: Sequence[Any], scale: float, limits: DecodeLimits) -> None:
    """scale * values into arrays on one GPU, once all are decoded; ValueError where one is elsewhere."""
    if not all(map(on_gpu, targets)) or len({target.device.id for target in targets}) > 1:
        raise ValueError("out must lie on one device, all of it")
    with device_of(targets[0]) as device:
        parts = _parts(device, data, head, limits)
        types = dtypes_of(head)
        for key, target in enumerate(targets):
            for part in parts[key]:
                decoding.add(device, target.reshape(-1), part, DTYPES[types[key]], scale)


def zeros(size: int, dtype: np.dtype[Any]) -> Any:
    """(size,) +0 on the current GPU, float32 or float64, to be added to."""
    return dense.zeros(cupy_device(), size, dtype)


def mean(total: Any, ranks: int, dtype: np.dtype[Any]) -> Any:
    """(n,) CuPy ``total`` / ranks, rounded to ``dtype``, as words; ``total`` is overwritten."""
    with device_of(total) as device:
        return dense.mean(device, total, ranks, dtype)


def count_nonzero(words: Any) -> int:
    """How many of (n,) words on a GPU are not 0 but for their sign."""
    with device_of(words) as device:
        return dense.count_nonzero(device, words)


def tensors_of(data: Bytes, head: Head, specs: TensorSpecs, limits: DecodeLimits) -> list[SparseTensor]:
    """The tensors of a container, their arrays on the current GPU.

    DeviceError where CuPy cannot hold them: bfloat16, and indices above 2^31.
    """
    device = cupy_device()
    for spec in specs:
        if spec.dtype == BFLOAT16:
            raise DeviceError(f"{spec.name!r} is bfloat16, which CuPy has not: decode_add into float32")
        if spec.size > 2**31:
            raise DeviceError(f"{spec.name!r} has {spec.size} elements; a GPU decodes 2^31 at most")
    parts = _parts(device, data, head, limits)
    found = []
    for key, spec in enumerate(specs):
        indices, words = decoding.joined(device, parts[key], spec.size)
        found.append(SparseTensor._of(indices, words.view(spec.dtype), spec.shape, limits.max_dense))
    return found


def _parts(
    device: CupyDevice, data: Bytes, head: Head, limits: DecodeLimits
) -> dict[int, list[DecodedChunk]]:
    """Every tensor's parts on the device; where one was transformed, by way of the host."""
    if not head.block.is_transformed:
        return decode_chunks(
            data, head, limits, partial(decoding.decode_chunk, device), partial(parted, device)
        )
    found = decode_chunks(data, head, limits)
    return {key: [decoding.on_device(device, part) for part in parts] for key, parts in found.items()}
