"""NaN and Inf in gradients: all ranks raise the same error, or all ranks get the same NaN.

With nonfinite="propagate", a mean is delivered only if all means of the exchange are finite. So an optimizer
that skips a step with NaN or Inf, as with torch's GradScaler, skips nothing that left a residual. This holds
for every cause, and each is known to all ranks without another message:

    a gradient that cannot be encoded       its rank's header has the status VALUE
    NaN or Inf that a codec carries         it is in the results, which are the same on all ranks
    a sum of finite values that overflows   the same
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.device import is_on_gpu, match_devices
from collectives.errors import CollectiveError
from wirecodec.interop import (
    as_flat,
    as_sparse,
    dtype_named,
    find_nonfinite,
    find_nonfinite_array,
    gpu_are_finite,
)

SETTINGS = ("raise", "propagate")


def check_setting(nonfinite: Any) -> None:
    """Raise ValueError unless ``nonfinite`` is a setting."""
    if nonfinite not in SETTINGS:
        raise ValueError(f"nonfinite is {nonfinite!r}; the choices are {', '.join(map(repr, SETTINGS))}")


def check_gradients(tensors: Mapping[str, Any]) -> None:
    """Raise EncodeError for the first NaN or Inf of named tensors.

    Error feedback finds each one that is not sent. Without feedback, a selector may drop it.
    """
    for name, given in tensors.items():
        tensor = as_sparse(given)
        sparse = isinstance(tensor, wc.SparseTensor)
        at = find_nonfinite(tensor.values if sparse else tensor)
        if at >= 0:
            position = int(tensor.indices[at]) if sparse else at
            raise wc.EncodeError("NaN or Inf in the gradient", tensor=name, position=position)


def check_results(
    results: Mapping[str, Any], dtypes: Mapping[str, np.dtype[Any]], limits: Mapping[str, float] | None = None
) -> None:
    """Raise CollectiveError on all ranks if a result is not finite, or beyond its limit.

    Args:
        results: {name: (size,)} on the host, or raw bits on a GPU; the same bits on all ranks.
        dtypes: element types, by name.
        limits: {name: largest magnitude}; a tensor without one may have any finite value.
    """
    is_plain = not limits and {type(x) for x in results.values()} == {np.ndarray}
    if is_plain and find_nonfinite_array([*results.values()]) < 0:
        return
    spoilt = _find_on_gpu(results, dtypes)
    for name, result in results.items():
        if name in spoilt or (not is_on_gpu(result) and find_nonfinite(result) >= 0):
            raise CollectiveError(f"tensor {name!r}: the result is not finite", reason="value")
        limit = (limits or {}).get(name)
        if limit is not None and not _is_within(result, dtypes[name], limit):
            raise CollectiveError(
                f"tensor {name!r}: a result is beyond {limit:g}, so it is not finite in the gradient's unit"
                " and type",
                reason="value",
            )


def _find_on_gpu(results: Mapping[str, Any], dtypes: Mapping[str, np.dtype[Any]]) -> set[str]:
    """Return the names of results on a GPU that are not finite; the host waits once per element type."""
    kinds: dict[np.dtype[Any], list[str]] = {}
    for name, result in results.items():
        if is_on_gpu(result):
            kinds.setdefault(dtypes[name], []).append(name)
    found = set()
    for dtype, names in kinds.items():
        finite = gpu_are_finite([results[name] for name in names], dtype)
        found |= {name for name, fine in zip(names, finite.tolist(), strict=True) if not fine}
    return found


def _is_within(result: Any, dtype: np.dtype[Any], limit: float) -> bool:
    """Return whether no magnitude of a finite result, or of its raw bits on a GPU, exceeds a limit.

    Magnitudes of floats have the order of their bits without the sign.
    """
    if not result.size:
        return True
    if not is_on_gpu(result):
        return float(result.max()) <= limit and float(result.min()) >= -limit
    width = 8 * dtype.itemsize
    magnitudes = result.view(f"u{dtype.itemsize}") & (2 ** (width - 1) - 1)
    nearest = np.array(limit, dtype)
    bits = int(nearest.view(f"u{dtype.itemsize}"))
    return int(magnitudes.max()) <= bits - (float(nearest) > limit)


def is_propagated(error: CollectiveError, nonfinite: str) -> bool:
    """Return whether an error is delivered as NaN. The answer is the same on all ranks."""
    return nonfinite == "propagate" and error.reason == "value"


def make_nan(tensors: Any) -> Any:
    """Return results of NaN for an array or {name: array}, with their types, shapes and devices."""
    if isinstance(tensors, Mapping):
        return {name: make_nan(tensor) for name, tensor in tensors.items()}
    if not hasattr(tensors, "dtype"):
        tensors = as_flat(tensors).data  # a buffer
    nan = np.full(tuple(tensors.shape), np.nan, dtype_named(tensors.dtype))
    return match_devices(tensors, nan)
