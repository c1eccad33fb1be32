"""Functions of a GPU that the public functions call, for arrays of CuPy, and of torch through DLPack.

Only this module and ``gpu.residual`` import CuPy, by ``cupy_device``; everything below works on any
``Device``. Kernels are launched on the current stream of the arrays' device.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.container.reader import ContainerHeader, read_header
from wirecodec.container.schema import TensorSpecs, dtypes_of
from wirecodec.cpu.columns import Targets
from wirecodec.cpu.decode import decode_chunks
from wirecodec.cpu.guard import Guard
from wirecodec.cpu.momentum import clip_factor
from wirecodec.element_types import BFLOAT16, DTYPES
from wirecodec.errors import DeviceError, EncodeError, number_of_container
from wirecodec.gpu import arrays, chunk
from wirecodec.gpu import decode as decoding
from wirecodec.gpu import encode as encoding
from wirecodec.gpu import step as steps
from wirecodec.gpu.fast import add as fast_add
from wirecodec.gpu.fast import feedback as fast_feedback
from wirecodec.gpu.fuse import split_part
from wirecodec.gpu.group import select_group
from wirecodec.jobs import StepInput, StepResult, TensorJob
from wirecodec.kernels.cuda import batch_sums
from wirecodec.kernels.cuda.device import CupyDevice, cupy_device, device_of
from wirecodec.limits import UNLIMITED, DecodeLimits
from wirecodec.settings.scheme import Scheme
from wirecodec.sparse import SparseTensor
from wirecodec.support import DecodedChunk
from wirecodec.tensors import DeviceFlat, as_bytes, as_device_flat, is_torch, on_gpu


def encode(tensor: Any, scheme: Scheme, seed: int, tag: bytes) -> Bytes:
    """Encode a tensor on a GPU as a container, a uint8 CuPy array. Raises EncodeError or DeviceError."""
    flat: DeviceFlat = as_device_flat(tensor, cupy_device().cupy)
    with device_of(flat.raw_bits, follows_torch=is_torch(tensor)) as device:
        blob: Bytes = encoding.encode(device, flat, scheme, seed, tag)
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
    """Encode named tensors on one GPU, in the order of their keys, as one container on it."""
    flats = _as_flats(tensors)
    follows = any(map(is_torch, tensors.values()))
    with device_of(next(iter(flats.values())).raw_bits, follows_torch=follows) as device:
        blob: Bytes = encoding.encode_many(device, flats, schemes, seed, tag, names=names, fuse=fuse)
        return blob


def _as_flats(tensors: Mapping[str, Any]) -> dict[str, DeviceFlat]:
    """View named tensors as flat raw bits. Raises EncodeError if they are not all on one GPU."""
    cupy = cupy_device().cupy
    flats, ordered = {}, dict[int, bool]()
    for name, tensor in tensors.items():
        if not on_gpu(tensor):
            raise EncodeError("is on the host, and others are on a GPU; move all to one device", tensor=name)
        try:
            flats[name] = as_device_flat(tensor, cupy, ordered)
        except EncodeError as error:
            raise error.of(name) from None
    if len({flat.raw_bits.device.id for flat in flats.values()}) > 1:
        raise EncodeError("the tensors are on several GPUs; move them to one")
    return flats


def step(tensors: Mapping[str, Any], wanted: StepInput) -> StepResult:
    """Run a Compressor's step for named tensors on one GPU; their residuals may be anywhere.

    EncodeError names the tensor.
    """
    flats = _as_flats(tensors)
    follows = any(map(is_torch, tensors.values()))
    with device_of(next(iter(flats.values())).raw_bits, follows_torch=follows) as device:
        batched = fast_feedback.step(device, flats, wanted)
        if batched is not None:
            return batched
        selected = _select(device, flats, wanted)
        blob = steps.encode(device, selected, wanted.seed, names=wanted.names, fuse=wanted.fuse)
        blob_on_host = as_bytes(device.get(blob))
        header = read_header(blob_on_host, UNLIMITED, sizes_trusted=True)
        parts = _decode_parts(device, blob_on_host, header, UNLIMITED)
        residuals, momenta = {}, {}
        for key, (name, tensor) in enumerate(selected.items()):
            try:
                residuals[name] = steps.next_residual(device, tensor, parts[key])
                momenta[name] = steps.next_momentum(device, tensor, parts[key])
            except EncodeError as error:
                raise error.of(name) from None
        return StepResult(
            blob,
            blob_on_host,
            {name: _to_sparse(device, flats[name], parts[key]) for key, name in enumerate(selected)},
            {name: residual for name, residual in residuals.items() if residual is not None},
            {name: tensor.selector for name, tensor in selected.items() if tensor.selector is not None},
            {name: momentum for name, momentum in momenta.items() if momentum is not None},
        )


def _find_clip_factor(device: CupyDevice, flats: Sequence[DeviceFlat], bound: float) -> float:
    """Return the factor that limits the norm of all gradients, as on the host."""

    def copy() -> list[Array]:
        return [arrays.copy_to_host(device, flat).data for flat in flats]

    return clip_factor(arrays.sum_squares(device, flats), bound, copy)


def _select(
    device: CupyDevice, flats: Mapping[str, DeviceFlat], wanted: StepInput
) -> dict[str, steps.SelectedTensor]:
    """Select from all tensors, in the order of their keys. Raises EncodeError, which names the tensor."""
    factor = 1.0 if wanted.clip is None else _find_clip_factor(device, list(flats.values()), wanted.clip)
    selected: dict[str, steps.SelectedTensor] = {}
    members: dict[Any, list[tuple[str, DeviceFlat, TensorJob]]] = {}
    for name, wanted_job in wanted.jobs.items():
        held = wanted.hold_zeros and arrays.are_zero(device, [flats[name].raw_bits])[0]
        job = wanted_job.hold() if held else wanted_job
        residual, momentum = (
            device.put(x) if x is not None and not on_gpu(x) else x for x in (job.residual, job.momentum)
        )
        moved = replace(job, residual=residual, momentum=momentum)
        if name in wanted.jobs.groups and not held:
            kind = wanted.jobs.groups[name], flats[name].dtype
            members.setdefault(kind, []).append((name, flats[name], moved))
            continue
        try:
            selected[name] = steps.select_tensor(device, flats[name], moved, factor)
        except EncodeError as error:
            raise error.of(name) from None
    for given in members.values():
        group = select_group(device, given, factor)
        selected |= {name: one for (name, _, _), one in zip(given, group, strict=True)}
    return {name: selected[name] for name in wanted.jobs}


def _to_sparse(device: CupyDevice, flat: DeviceFlat, parts: Sequence[DecodedChunk]) -> SparseTensor:
    """Join a tensor's chunks; bfloat16, which CuPy does not have, is copied to the host."""
    indices, raw = decoding.concatenate_parts(device, parts, flat.raw_bits.size)
    if flat.dtype == BFLOAT16:
        indices, raw = None if indices is None else device.get(indices), device.get(raw)
    return SparseTensor._of(indices, raw.view(flat.dtype), flat.shape, UNLIMITED.max_dense)


def copy_to_host(array: Any) -> Array:
    """Copy a CuPy array, or one with the same interface, to the host."""
    cupy = cupy_device().cupy
    contiguous = cupy.ascontiguousarray(cupy.asarray(array))
    with device_of(contiguous) as device:
        copy: Array = device.get(contiguous.reshape(-1)).reshape(contiguous.shape)
        return copy


def copy_bytes_to_host(blob: Any) -> Bytes:
    """Copy a container's bytes from a GPU to the host."""
    cupy = cupy_device().cupy
    copy: Bytes = copy_to_host(cupy.ascontiguousarray(cupy.asarray(blob)).reshape(-1).view(np.uint8))
    return copy


def read_bytes(blob: Bytes, start: int, stop: int) -> bytes:
    """Return some bytes of a container on a GPU."""
    return copy_bytes_to_host(blob[start:stop]).tobytes()


def replace_head(blob: Bytes, stop: int, head: bytes) -> Bytes:
    """Return a container with other bytes before its payload, which starts at ``stop``."""
    with device_of(blob):
        cupy = cupy_device().cupy
        replaced: Bytes = cupy.concatenate([cupy.asarray(np.frombuffer(head, np.uint8)), blob[stop:]])
        return replaced


def can_add(target: Any) -> bool:
    """Return whether ``add`` accepts an array: a contiguous CuPy array of float32 or float64."""
    cupy = sys.modules.get("cupy")
    if cupy is None or not isinstance(target, cupy.ndarray):
        return False
    return target.dtype in (np.float32, np.float64) and bool(target.flags.c_contiguous)


def add(
    containers: Sequence[tuple[Bytes, ContainerHeader]],
    targets: Targets,
    scale: float,
    limits: DecodeLimits,
    guard: Guard,
) -> None:
    """Add scale * values of containers, in their order, to arrays on one GPU, after all chunks are decoded.

    Args:
        containers: (bytes on the host, checked header) of each.
        targets: one array per tensor.
        scale: factor for all values.
        limits: bounds on decoding.
        guard: conditions on the values, which the host decodes once more to check them.

    Raises a WireError with the container's number; ValueError if an array is on another device.
    """
    arrays = targets.arrays
    if not all(map(on_gpu, arrays)) or len({target.device.id for target in arrays}) > 1:
        raise ValueError("out is on several devices; all arrays must be on one device")
    with device_of(arrays[0]) as device:
        flat = [target.reshape(-1) for target in arrays]
        if not guard.is_active and fast_add.add(device, containers, flat, scale):
            return
        decoded = []
        for number, (data, header) in enumerate(containers):
            with number_of_container(number if len(containers) > 1 else None):
                if guard.is_active:
                    guard.check(
                        decode_chunks(data, header, limits), [target.dtype for target in arrays], scale
                    )
                decoded.append((_decode_parts(device, data, header, limits), dtypes_of(header)))
        for parts, types in decoded:
            for key, target in enumerate(arrays):
                for part in parts[key]:
                    decoding.add_part(device, target.reshape(-1), part, DTYPES[types[key]], scale)


def zeros(sizes: Sequence[int], dtype: np.dtype[Any]) -> list[Any]:
    """Allocate zeros of several sizes on the current GPU, float32 or float64."""
    return arrays.zeros_each(cupy_device(), sizes, dtype)


def is_zero(tensor: Any) -> bool:
    """Return whether all elements of a tensor on a GPU are +0 or -0."""
    return are_zero([tensor])[0]


def are_zero(tensors: Sequence[Any]) -> list[bool]:
    """Return for each tensor on one GPU whether all its elements are +0 or -0; waits once per width."""
    cupy = cupy_device().cupy
    ordered = dict[int, bool]()
    words = [as_device_flat(tensor, cupy, ordered).raw_bits for tensor in tensors]
    with device_of(words[0], follows_torch=any(map(is_torch, tensors))) as device:
        return arrays.are_zero(device, words)


def find_nonfinite(tensor: Any) -> int:
    """Return the position of the first NaN or Inf of a tensor on a GPU, or -1."""
    flat = as_device_flat(tensor, cupy_device().cupy)
    with device_of(flat.raw_bits, follows_torch=is_torch(tensor)) as device:
        return arrays.find_nonfinite(device, flat.raw_bits, flat.dtype)


def are_finite(words: Sequence[Any], dtype: np.dtype[Any]) -> Array:
    """Return (n,) bool, which arrays of raw bits on a GPU have no NaN and no Inf."""
    with device_of(words[0]) as device:
        return ~batch_sums.find_nonfinite(device, words, dtype)


def means(totals: Sequence[Any], divisor: float, dtype: np.dtype[Any]) -> list[Any]:
    """Divide CuPy sums of one type, and round the quotients to raw bits of ``dtype``; overwrites the sums."""
    with device_of(totals[0]) as device:
        return arrays.means(device, totals, divisor, dtype)


def copy_all(results: Sequence[Any], targets: Sequence[Any]) -> None:
    """Copy raw bits to contiguous arrays of the same sizes and widths on the same GPU, CuPy's or torch's."""
    with device_of(results[0]) as device:
        for width in {each.dtype.itemsize for each in results}:
            here = [number for number, each in enumerate(results) if each.dtype.itemsize == width]
            places = [_address(device, targets[number]) for number in here]
            batch_sums.copy_all(device, [results[number] for number in here], places)


def _address(device: CupyDevice, array: Any) -> int:
    """Return the address of a CuPy array or a torch tensor."""
    return int(array.data_ptr()) if is_torch(array) else device.address(array)


def count_nonzero(raw_bits: Any) -> int:
    """Count the numbers that are neither +0 nor -0 among (n,) raw bits on a GPU."""
    with device_of(raw_bits) as device:
        return arrays.count_nonzero(device, raw_bits)


def tensors_of(
    data: Bytes, header: ContainerHeader, specs: TensorSpecs, limits: DecodeLimits
) -> list[SparseTensor]:
    """Decode the tensors of a container onto the current GPU.

    Raises a WireError; DeviceError for tensors that CuPy cannot hold: bfloat16, and more than 2^31 elements.
    """
    device = cupy_device()
    for spec in specs:
        if spec.dtype == BFLOAT16:
            raise DeviceError(
                f"{spec.name!r} is bfloat16, which CuPy does not have; use decode_add into float32"
            )
        if spec.size > 2**31:
            raise DeviceError(f"{spec.name!r} has {spec.size} elements; a GPU decodes at most 2^31")
    parts = _decode_parts(device, data, header, limits)
    tensors = []
    for key, spec in enumerate(specs):
        indices, raw = decoding.concatenate_parts(device, parts[key], spec.size)
        tensors.append(SparseTensor._of(indices, raw.view(spec.dtype), spec.shape, limits.max_dense))
    return tensors


def _decode_parts(
    device: CupyDevice, data: Bytes, header: ContainerHeader, limits: DecodeLimits
) -> Mapping[int, list[DecodedChunk]]:
    """Decode every tensor's chunks onto the device; the host decodes transformed ones."""
    if not header.extension.is_transformed:
        return decode_chunks(
            data, header, limits, partial(chunk.decode_chunk, device), partial(split_part, device)
        )
    decoded = decode_chunks(data, header, limits)
    return {key: [chunk.to_device(device, part) for part in parts] for key, parts in decoded.items()}
