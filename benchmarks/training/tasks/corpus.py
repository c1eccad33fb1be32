"""Sources of Python's standard library as ASCII characters or words, in three parts that share no file."""

from __future__ import annotations

import functools
import hashlib
import sysconfig
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["CHARACTERS", "compute_digest", "draw_starts", "draw_windows", "load_characters", "load_text"]

CHARACTERS = 128
SPLITS = {"validation": 0, "test": 1}
"""Remainder of a file's number, divided by 10, in each part; the other files are for training."""


@functools.cache
def load_text(split: str) -> str:
    """Return the files of "train", "validation" or "test", joined; characters beyond ASCII are left out."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(folder.glob("*.py"), key=lambda file: file.name)
    wanted = {SPLITS[split]} if split in SPLITS else set(range(10)) - set(SPLITS.values())
    chosen = [file for number, file in enumerate(files) if number % 10 in wanted]
    joined = "\n".join(file.read_text("utf-8", errors="ignore") for file in chosen)
    return joined.encode("ascii", "ignore").decode("ascii")


@functools.cache
def load_characters(split: str) -> npt.NDArray[np.int64]:
    """Return the characters of a part as integers below 128, (n,)."""
    found: npt.NDArray[np.int64] = np.frombuffer(load_text(split).encode(), np.uint8).astype(np.int64)
    return found


@functools.cache
def compute_digest() -> str:
    """Return the start of the SHA-256 of all parts: other versions of Python have other sources."""
    total = hashlib.sha256()
    for split in ("train", "validation", "test"):
        total.update(load_text(split).encode())
    return total.hexdigest()[:12]


def draw_starts(
    sequence: npt.NDArray[np.int64], rows: int, length: int, key: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    """Return the places (rows,) of the windows that ``draw_windows`` returns for a key."""
    return np.random.default_rng(key).integers(len(sequence) - length, size=rows)


def draw_windows(
    sequence: npt.NDArray[np.int64], rows: int, length: int, key: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    """Return windows (rows, length + 1) at random places; equal keys give equal windows."""
    starts = draw_starts(sequence, rows, length, key)
    return np.take(sequence, starts[:, None] + np.arange(length + 1))
