"""Properties that hold for any bytes and every entry point of the decoder; ``judge`` checks them."""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import wirecodec as wc
from formats import conformance, reference
from formats.reference.floats import BY_NAME
from tests.fuzz.anatomy import count_declared
from tests.fuzz.promise import NOISE, allowed_seconds, measure_decoding
from wirecodec.element_types import dtype_named, name_of

SMALL = {
    "max_bytes": 2**17,
    "max_entries": 512,
    "max_elements": 2**13,
    "max_dense": 2**17,
    "max_work": 2**15,
}
"""Limits that keep the slow reference decoder below a second."""


class Finding(AssertionError):
    """A violated property."""


def library(data: bytes, limits: dict[str, int], expected: Any) -> tuple[bytes, list[Any]]:
    """Decode with the library, as formats/vectors/README.md requires of a decoder."""
    allowed = wc.DecodeLimits(**limits)
    if isinstance(expected, conformance.One):
        decoded = {"": wc.decode(data, limits=allowed, schema=expected.tensor)}
    else:
        decoded = wc.decode_many(data, limits=allowed, schema=expected)
    tensors = [
        (
            name,
            name_of(t.dtype),
            t.shape,
            range(t.size) if t.is_full else t.indices.tolist(),
            t.values.tobytes(),
            *([t.absent] if t.absent != "zero" else []),
        )
        for name, t in decoded.items()
    ]
    return wc.inspect(data).tag, tensors


def outcome(read: Any, data: bytes, limits: dict[str, int]) -> Any:
    """Return (tag, tensors) or (error class, code) of a decoder; raise a Finding for any other exception."""
    try:
        tag, tensors = read(data, limits, None)
    except (wc.WireError, reference.WireError) as error:
        return type(error).__name__, error.code
    except Exception as error:
        raise Finding(f"{read.__module__}: {error!r}") from error
    return tag, [(n, d, tuple(s), list(i), bytes(v), *a) for n, d, s, i, v, *a in tensors]


def judge(data: bytes, *, compared: bool = True, slower: float = 1.0) -> str:
    """Check all properties; return "ok" or the error's code.

    Args:
        data: any bytes.
        compared: whether the result is compared with the reference decoder's.
        slower: factor on the allowed time, for instrumented code.

    Raises:
        Finding: a property is violated.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = outcome(library, data, SMALL)
        if compared:
            _agree(found, data, SMALL)
        good = isinstance(found[0], bytes)
        _other_ways(data, found[1] if good else None)
        _default_limits(data, slower)
    return "ok" if good else str(found[1])


def agree(data: bytes, limits: dict[str, int] = SMALL) -> Any:
    """Return the common outcome of library and reference; raise a Finding if they differ."""
    found = outcome(library, data, limits)
    _agree(found, data, limits)
    return found


def _agree(found: Any, data: bytes, limits: dict[str, int]) -> None:
    theirs = outcome(conformance.reference, data, limits)
    if found != theirs and not is_near(found, theirs, data):
        short = f"{str(found)[:300]} / {str(theirs)[:300]}"
        raise Finding(f"library and reference differ: {short}, of {data.hex()[:4000]}")


def is_near(found: Any, theirs: Any, data: bytes) -> bool:
    """Return whether two outcomes differ only by rounding in the values of transformed tensors."""
    if not (isinstance(found[0], bytes) and isinstance(theirs[0], bytes)) or found[0] != theirs[0]:
        return False
    if len(found[1]) != len(theirs[1]):
        return False
    vectors = {
        name: entry.name for entry in wc.inspect(data).entries if entry.transform for name, _ in entry.members
    }
    parts: dict[str, tuple[str, list[bytes], list[bytes]]] = {}
    for (*one, ours), (*other, values) in zip(found[1], theirs[1], strict=True):
        if one != other or (ours != values and one[0] not in vectors):
            return False
        if one[0] in vectors:
            _, left, right = parts.setdefault(vectors[one[0]], (one[1], [], []))
            left.append(ours)
            right.append(values)
    for dtype, left, right in parts.values():
        pair = b"".join(left), b"".join(right)
        a, b = (np.array(list(conformance._iterate_numbers(x, dtype))) for x in pair)
        kind = ml_dtypes.finfo(dtype_named(dtype))
        largest = np.abs(b[np.isfinite(b)]).max(initial=0)
        if largest == float(kind.max):
            continue  # elements are clamped there, so the size of the coefficients is unknown
        near = 4 * float(kind.eps) * largest * b.size**0.5 + b.size * float(kind.smallest_subnormal)
        with np.errstate(all="ignore"):
            same = (a == b) | (np.abs(a - b) <= near)
        if not same.all():
            return False
    return True


def _other_ways(data: bytes, tensors: list[Any] | None) -> None:
    """Check that ``decode``, ``decode_add``, ``inspect`` and ``iter_blobs`` agree with ``decode_many``."""
    limits = wc.DecodeLimits(**SMALL)
    ways: dict[str, Callable[[], Any]] = {
        "decode": lambda: wc.decode(data, limits=limits),
        "inspect": lambda: wc.inspect(data),
        "iter_blobs": lambda: list(wc.iter_blobs(data, limits=limits)),
        "file": lambda: list(wc.iter_blobs(io.BytesIO(data), limits=limits)),
    }
    for way, read in ways.items():
        try:
            read()
        except wc.WireError as error:
            if tensors is not None and not (way == "decode" and error.code == "schema-count"):
                raise Finding(f"{way} rejects a container that decode_many accepts: {error}") from error
            continue
        except Exception as error:
            raise Finding(f"{way}: {error!r}") from error
        if tensors is None and way == "decode":
            raise Finding("decode accepts a container that decode_many rejects")
    if tensors is None:
        return
    sums = {t[0]: np.zeros(int(np.prod(t[2], dtype=np.int64)), np.float64) for t in tensors}
    added = all(dtype in BY_NAME for _, dtype, *_ in tensors)
    try:
        wc.decode_add(data, sums, limits=limits)
        if not added:
            raise Finding("decode_add adds what is no float")
    except wc.Unsupported as error:
        if added or error.code != "dtype":
            raise Finding(f"decode_add: {error!r}") from error
    except Exception as error:
        patched = any("unchanged" in tensor[5:] for tensor in tensors)
        if not patched or getattr(error, "code", None) != "patch" or any(x.any() for x in sums.values()):
            raise Finding(f"decode_add: {error!r}") from error
    else:
        if any("unchanged" in tensor[5:] for tensor in tensors):
            raise Finding("decode_add adds a patch")
    for name, _, _, indices, values, *_ in tensors:
        if len(values) and not indices:
            raise Finding(f"{name!r} has values but no indices")
        if any(a >= b for a, b in itertools.pairwise(indices)):
            raise Finding(f"the indices of {name!r} do not ascend")
        if indices and not 0 <= indices[0] <= indices[-1] < sums[name].size:
            raise Finding(f"an index of {name!r} is out of range")


DECODE_LIMITS = wc.DecodeLimits(max_work=2**22)
"""The default limits with fewer steps for index codecs; the default allows several seconds."""


def _default_limits(data: bytes, slower: float) -> None:
    allowed = NOISE * slower * allowed_seconds(data, DECODE_LIMITS)
    if _timed(data) > allowed and (took := min(_timed(data) for _ in range(4))) > allowed:
        raise Finding(f"{1000 * took:.0f} ms for {len(data)} bytes, {count_declared(data)[0]} elements")


def _timed(data: bytes) -> float:
    """Measure the CPU seconds of one decoding."""
    try:
        return measure_decoding(data, DECODE_LIMITS)[0]
    except Exception as error:
        raise Finding(f"decode_many: {error!r}") from error
