"""Round trips of a tensor and a scheme that a fuzzer's bytes determine."""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np

import wirecodec as wc
from tests.fuzz.judge import Finding, library, outcome
from wirecodec.element_types import DTYPES

SELECTORS = ("all", "nonzero", "topk(0.1)", "randomk(0.2)")
INDICES = (
    *("raw-index", "bitmap", "rice", "rle", "delta", "huffman(symbols=gaps)", "elias-fano", "binned"),
    *("structured", "context", "bloom(policy=p0, fpr=0.05)", "auto-index"),
)
VALUES = (
    *("raw", "raw(dtype=float16)", "raw(dtype=bfloat16)", "qsgd(bits=3, bucket=32)", "sign-scale", "deflate"),
    *("zstd", "offset-float(bits=6)", "polyfit", "dexpfit", "terngrad", "3lc(sparsity=1.5)", "sketchml"),
    *("error-bounded", "mean", "auto-value"),
)
LOSSLESS = ("raw", "deflate", "zstd")
PREFIXES = ("", "", "", "rfft | ", "dct | ")


def round_trip(data: bytes) -> None:
    """Encode and decode; raise a Finding for any error but an EncodeError, and for changed values."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _round_trip(data)


def _round_trip(data: bytes) -> None:
    x, scheme, value = _parse_case(data)
    try:
        blob = wc.encode(x, scheme, seed=zlib.crc32(data)).tobytes()
    except wc.EncodeError:
        return
    except Exception as error:
        raise Finding(f"encode with {scheme!r}: {error!r}") from error
    found = outcome(library, blob, {})
    if not isinstance(found[0], bytes):
        raise Finding(f"{scheme!r} writes a container that the decoder rejects: {found}")
    decoded = wc.decode(blob)
    if value in LOSSLESS and not scheme.startswith(("rfft", "dct")):
        if decoded.values.tobytes() != x[decoded.indices].tobytes():
            raise Finding(f"{scheme!r} changes values")
    elif _finite(x) and not _finite(decoded.values):
        raise Finding(f"{scheme!r} decodes finite values to NaN or Inf")


def _parse_case(data: bytes) -> tuple[Any, str, str]:
    """Return the tensor, the scheme and its value codec that the bytes determine."""
    head, body = data[:6].ljust(6, b"\0"), data[6:]
    dtype = DTYPES[head[0] % 4]
    if head[5] & 8:  # values of similar magnitude with ties, unlike elements of arbitrary bytes
        values = np.frombuffer(body, np.int8).astype(dtype) / dtype.type(32)
    else:
        values = np.frombuffer(body[: len(body) // dtype.itemsize * dtype.itemsize], dtype)
    x = np.zeros(values.size + head[4] * 3, dtype)
    where = np.unique(np.linspace(0, max(x.size - 1, 0), values.size).astype(np.int64))
    x[where] = values[: where.size]
    value = VALUES[head[3] % len(VALUES)]
    scheme = " | ".join((SELECTORS[head[1] % 4], INDICES[head[2] % len(INDICES)], value))
    return x, PREFIXES[head[5] % 5] + scheme, value


def _finite(x: Any) -> bool:
    with np.errstate(invalid="ignore"):  # a signalling NaN in bfloat16 raises the invalid flag
        return bool(np.isfinite(x).all())
