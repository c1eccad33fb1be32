"""Encode and decode: the bytes of a fuzzer say what is encoded and how."""

from __future__ import annotations

import struct

import numpy as np

import wirecodec as wc
from tests.fuzz.judge import Finding, library, outcome
from wirecodec.arrays import DTYPES

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
    """Raise a Finding where encoding fails but by an EncodeError, or decoding by anything."""
    head, body = data[:6].ljust(6, b"\0"), data[6:]
    dtype = DTYPES[head[0] % 4]
    values = np.frombuffer(body[: len(body) // dtype.itemsize * dtype.itemsize], dtype)
    d = values.size + head[4] * 3
    x = np.zeros(d, dtype)
    where = np.unique(np.linspace(0, max(d - 1, 0), values.size).astype(np.int64))
    x[where] = values[: where.size]
    value = VALUES[head[3] % len(VALUES)]
    scheme = " | ".join((SELECTORS[head[1] % 4], INDICES[head[2] % len(INDICES)], value))
    scheme = PREFIXES[head[5] % 5] + scheme
    try:
        blob = wc.encode(x, scheme, seed=struct.unpack("<I", head[:4])[0]).tobytes()
    except wc.EncodeError:
        return
    except Exception as error:
        raise Finding(f"encode with {scheme!r}: {error!r}") from error
    found = outcome(library, blob, {})
    if not isinstance(found[0], bytes):
        raise Finding(f"{scheme!r} is refused by its own reader: {found}")
    if "|" in scheme and not scheme.startswith(("rfft", "dct")) and value in LOSSLESS:
        decoded = wc.decode(blob)
        if decoded.values.tobytes() != x[decoded.indices].tobytes():
            raise Finding(f"{scheme!r} changes values")
    if value not in LOSSLESS and not np.isfinite(wc.decode(blob).values.astype(np.float64)).all():
        raise Finding(f"{scheme!r} gives what is no number")
