"""The public functions that decode containers into dense arrays: sums and means.

    decode_add:  containers -> all validated, as by ``pipeline`` -> array += scale * values, one after another
    decode_sum:  containers -> all validated -> array = their sum, or their mean

Each calls the host's or the GPU's implementation. No array changes before every container has been validated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, integers
from wirecodec.container.reader import ContainerHeader
from wirecodec.container.schema import (
    TensorSpecs,
    check_all,
    check_count,
    check_names,
    check_only,
    plain_spec,
    require_floats,
)
from wirecodec.cpu import entry as host
from wirecodec.cpu.columns import Targets
from wirecodec.cpu.guard import Guard
from wirecodec.errors import SchemaMismatch, number_of_container
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits, Schema, TensorSchema
from wirecodec.pipeline import choose_implementation, open_container
from wirecodec.registry import index_codecs, transform, value_codecs
from wirecodec.sparse import SparseTensor, patch_error
from wirecodec.tensors import any_on_gpu, as_target, on_gpu

_ADDED = "only floats of 16 to 64 bits are added"


def decode_add(
    blob: Any,
    out: Array | Mapping[str, Array],
    *,
    scale: float = 1.0,
    limits: DecodeLimits | None = None,
    schema: TensorSchema | Schema | None = None,
    finite: bool = False,
    max_norm: float | None = None,
) -> None:
    """Decode containers and add scale * values to dense arrays, in one pass.

    All containers are validated before any array changes. The value, the product and the sum are each
    rounded in the dtype of ``out``.

    Args:
        blob: any buffer of bytes, a uint8 array on a GPU, or a list of these, which are added in its order.
            The bits are those of one call per container. The memory of all decoded values is needed at once.
        out: a dense array of the tensor's size, or {name: array} for all tensors; float32 or float64,
            writable and contiguous; all NumPy arrays or torch tensors on the CPU, or all CuPy arrays.
        scale: the factor.
        limits: bounds on the cost of decoding each container; None for the defaults.
        schema: as for ``decode`` or ``decode_many``. Names and sizes are checked against ``out`` without it.
        finite: True to reject a container if a value is NaN or Inf, or if scale * value is Inf in the dtype
            of ``out``.
        max_norm: largest L2 norm of all values of a container, before scaling; None for any.

    Raises:
        WireError: the bytes are not a valid container, exceed a limit, or do not match the schema or ``out``.
            If there are several, ``container`` is the number of the one at fault. A patch, whose absent
            elements are unchanged, is not a sum: it raises SchemaMismatch with code "patch".
            ``finite`` raises Invalid with code "nonfinite", ``max_norm`` LimitExceeded with code "max-norm".
        ValueError: ``out`` is not such an array.
        DeviceError: an array is on a GPU that cannot be used.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> total = np.ones(3, np.float32)
        >>> wc.decode_add(wc.encode(np.array([0, 2, 4], "f4")), total, scale=0.5)
        >>> total
        array([1., 2., 3.], dtype=float32)
    """
    limits, scale, guard = limits or DEFAULT_LIMITS, float(scale), Guard(finite, max_norm)
    containers, targets = _open_all(blob if isinstance(blob, list | tuple) else [blob], out, limits, schema)
    if containers:
        to_gpu = targets.columns is None and any_on_gpu(targets.arrays)
        choose_implementation(to_gpu).add(containers, targets, scale, limits, guard)
        _keep(containers)


def decode_sum(
    blobs: Sequence[Any],
    out: Array | Mapping[str, Array],
    *,
    divisor: float = 1,
    scales: Sequence[float] | None = None,
    sent: Mapping[int, Mapping[str, SparseTensor]] | None = None,
    limits: DecodeLimits | None = None,
    schema: TensorSchema | Schema | None = None,
) -> bool:
    """Replace arrays on the host by sums of scale * values of containers, or by their means.

    Sums begin with +0, and follow the order of the containers.

    Args:
        blobs: as for ``decode_add``.
        out: as for ``decode_add``.
        divisor: of the sums, which are rounded before they are divided.
        scales: the factor of each container; None for 1.
        sent: ``Prepared.sent`` of containers that this process has encoded, by number. They may be taken from
            there, and not from their bytes.
        limits, schema: as for ``decode_add``.

    Returns:
        Whether all results are finite.

    Raises:
        WireError, ValueError: as ``decode_add`` does. No array has changed then.
    """
    limits = limits or DEFAULT_LIMITS
    containers, targets = _open_all(blobs, out, limits, schema, own=min(sent, default=None) if sent else None)
    factors = [1.0] * len(blobs) if scales is None else scales
    is_finite = host.average(containers, targets, divisor, limits, sent or {}, factors)
    _keep(containers)
    return is_finite


def check_values(
    blob: Any,
    dtypes: Mapping[str, np.dtype[Any]],
    *,
    limits: DecodeLimits,
    schema: TensorSchema | Schema,
    finite: bool = False,
    max_norm: float | None = None,
) -> tuple[set[str], set[str], set[str]]:
    """Decode a container on the host, and check its values as ``decode_add`` does, without the addition.

    Args:
        blob: as for ``decode_add``.
        dtypes: {name: type of the sums}; of the only tensor if the schema is a tensor's.
        limits, schema, finite, max_norm: as for ``decode_add``.

    Returns:
        The names of the index codecs, of the value codecs, and of the transforms, "" for none.

    Raises:
        WireError: as ``decode_add`` does.
    """
    guard = Guard(finite, max_norm)
    data, header = open_container(blob, limits, sizes_trusted=True)
    if isinstance(schema, Mapping):
        specs = TensorSpecs(header, schema)
        check_all(specs, schema)
        kinds = [dtypes[name] for name in specs.names()]
    else:
        check_count(header)
        check_only(TensorSpecs(header, None), schema)
        kinds = [*dtypes.values()]
    require_floats(header, _ADDED)
    decoded = host.decode_values(data, header, limits)
    if patches := header.extension.patches():
        raise _refuse(header, patches[0])
    guard.check(decoded, kinds, 1.0)
    _keep([(data, header)])
    table, transforms = header.table, np.unique(header.table["dtype"] >> 4).tolist()
    return (
        {index_codecs()[number].name for number in np.unique(table["index"]).tolist()},
        {value_codecs()[number].name for number in np.unique(table["value"]).tolist()},
        {transform(number).name if number else "" for number in transforms},
    )


def _keep(containers: Sequence[tuple[Bytes, ContainerHeader]]) -> None:
    """Keep the names and shapes of the first container, since all others mostly have the same."""
    for _, header in containers[:1]:
        header.extension.keep()


def _open_all(
    blobs: Sequence[Any],
    out: Array | Mapping[str, Array],
    limits: DecodeLimits,
    schema: TensorSchema | Schema | None,
    own: int | None = None,
) -> tuple[list[tuple[Bytes, ContainerHeader]], Targets]:
    """Return the containers with their checked headers, and the array that each tensor is added to.

    Tensors that are like those of a container before, or of the one that this process has encoded for these
    arrays (number ``own``), are not compared with the schema again.
    """
    containers: list[tuple[Bytes, ContainerHeader]] = []
    trusted, known, targets = None, None, Targets(())
    if own is not None:
        trusted = open_container(blobs[own], limits, sizes_trusted=True)
        known, targets = trusted[1], _find_targets(trusted[1], out, None)
    for number, one in enumerate(blobs):
        if number == own and trusted is not None:
            containers.append(trusted)
            continue
        with number_of_container(number if len(blobs) > 1 else None):
            # Sizes are trusted because they are checked against ``out``.
            data, header = open_container(one, limits, sizes_trusted=True)
            require_floats(header, _ADDED)
            if known is None or not header.has_tensors_of(known):
                known, targets = header, _find_targets(header, out, schema)
            containers.append((data, header))
    return containers, targets


def _find_targets(
    header: ContainerHeader, out: Array | Mapping[str, Array], schema: TensorSchema | Schema | None
) -> Targets:
    """Return the array that each of a container's tensors is added to, in the order of their keys.

    Raises SchemaMismatch if the tensors do not match the schema or the arrays, or if one is a patch.
    Raises ValueError if an array is not one that values can be added to.
    """
    if patches := header.extension.patches():
        raise _refuse(header, patches[0])
    if isinstance(out, Mapping):
        specs = TensorSpecs(header, out)
        check_all(specs, schema)  # type: ignore[arg-type]
        check_names(specs, out)
        given = [*map(out.__getitem__, specs.names())]
        columns = host.describe_targets(given, specs.sizes)
        if columns is not None:  # as for most models; a conversion per array takes as long as adding
            return Targets(given, columns)
        targets = [*map(as_target, given)]
    else:
        spec = plain_spec(header)
        if spec is not None:
            check_only((spec,), schema)  # type: ignore[arg-type]
            targets = [as_target(out)]
            if host.can_add(targets[0]) and targets[0].size == spec.size:
                return Targets(targets)
        check_count(header)
        specs = TensorSpecs(header, None)
        check_only(specs, schema)  # type: ignore[arg-type]
        targets = [as_target(out)]
    columns = host.describe_targets(targets, specs.sizes)
    if columns is None:
        _check_targets(targets, specs)
    return Targets(targets, columns)


def _refuse(header: ContainerHeader, patch: int) -> SchemaMismatch:
    """Return the error of a tensor that is a patch."""
    return patch_error("it is not added", next(islice(TensorSpecs(header, None).names(), patch, None)))


def _check_targets(targets: Sequence[Any], specs: TensorSpecs) -> None:
    """Raise the error of the first array that a tensor's values cannot be added to."""
    for key, (target, size) in enumerate(zip(targets, integers(specs.sizes), strict=True)):
        if not choose_implementation(on_gpu(target)).can_add(target):
            name = next(islice(specs, key, None)).name
            raise ValueError(f"out of {name!r} is not a writable, contiguous float32 or float64 array")
        if target.size != size:
            spec = next(islice(specs, key, None))
            raise SchemaMismatch(
                "schema-shape", f"{spec.name!r} has shape {spec.shape}; out has {target.shape}"
            )
