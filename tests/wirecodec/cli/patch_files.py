"""Files of the tests of patches: states in all formats, and what is in a folder afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.wirecodec.patch.weights import TYPES, random_pair
from wirecodec.cli import main
from wirecodec.cli.safetensors_files import make_head, make_row, write_elements
from wirecodec.element_types import name_of

INDEX = "model.safetensors.index.json"


JOURNAL = ".wirecodec-apply.json"


State = dict[str, Any]


def make_pair(types: tuple[Any, ...] = TYPES) -> tuple[State, State]:
    """Make two states of all types, with 0-d, empty and equal tensors."""
    pairs = {f"{name_of(np.dtype(kind))}.w": random_pair(kind, (3, 50), 0.1, seed=3) for kind in types}
    one, other = random_pair(ml_dtypes.bfloat16, (400,), 0.02)
    pairs |= {
        "head": (one, other),
        "embedding": (one, other),
        "step": (np.array(1.0, "f4"), np.array(-0.0, "f4")),
    }
    pairs |= {"none": (np.empty((0, 3), "f4"),) * 2, "same": (np.arange(9, dtype="f8"),) * 2}
    return tuple({name: pair[i] for name, pair in pairs.items()} for i in (0, 1))  # type: ignore[return-value]


def without(*gone: Any) -> tuple[Any, ...]:
    return tuple(kind for kind in TYPES if kind not in map(np.dtype, gone))


IN_SAFETENSORS = without("complex128")


IN_NPZ = without(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu)


def save_file(path: Path, state: State) -> None:
    rows = {name: make_row(name, x.shape, x.dtype) for name, x in state.items()}
    with path.open("wb") as file:
        file.write(make_head(rows, rows, {"format": "pt", "é": "ü"}))
        for x in state.values():
            write_elements(file, x)


def save_folder(path: Path, state: State) -> None:
    """Write two shards and their index as Hugging Face does."""
    path.mkdir()
    names, places = list(state), dict[str, str]()
    for number, own in enumerate((names[::2], names[1::2]), 1):
        shard = f"model-{number:05}-of-00002.safetensors"
        save_file(path / shard, {name: state[name] for name in own})
        places |= dict.fromkeys(own, shard)
    index = {"metadata": {"total_size": sum(x.nbytes for x in state.values())}, "weight_map": places}
    (path / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def save_npz(path: Path, state: State) -> None:
    np.savez(path, **state)


def save_compressed(path: Path, state: State) -> None:
    np.savez_compressed(path, **{name: np.array(x, order="F") for name, x in state.items()})


Save = Callable[[Path, State], None]


FORMATS: dict[str, tuple[str, Save, tuple[Any, ...]]] = {
    "safetensors": (".safetensors", save_file, IN_SAFETENSORS),
    "folder": ("", save_folder, IN_SAFETENSORS),
    "npz": (".npz", save_npz, IN_NPZ),
    "compressed": (".npz", save_compressed, IN_NPZ),
}


formats = pytest.mark.parametrize("kind", FORMATS)


def save_pair(tmp_path: Path, kind: str, old: State, new: State) -> tuple[Path, Path, Path]:
    suffix, save, _ = FORMATS[kind]
    paths = tmp_path / f"old{suffix}", tmp_path / f"new{suffix}", tmp_path / "p.wc"
    for path, state in zip(paths, (old, new), strict=False):
        save(path, state)
    return paths


def read(path: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a folder, or of the folder of a file."""
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def contents(path: Path) -> Any:
    return read(path) if path.is_dir() else path.read_bytes()


def run(*arguments: Any) -> int:
    return main([str(argument) for argument in arguments])
