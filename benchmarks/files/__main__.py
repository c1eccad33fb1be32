"""Time and bytes to read one of 300 tensors from a file: wirecodec beside formats that others use.

Each repeat opens the file, reads another tensor as a NumPy array, and closes it. The file is in the page
cache. Formats take turns. Bytes are those that the process has read; safetensors maps its file, so its bytes
are those of its header and of the tensor.

    python -m benchmarks.files [--quick]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

import numpy as np

import wirecodec as wc
from benchmarks.common.command import PARTIAL_RUN, create_parser, show_steps
from benchmarks.common.results import describe_machine, format_markdown, write_result
from benchmarks.common.targets import check_at_most, format_targets
from wirecodec.arrays import Array

TENSORS, ROUNDS = 300, 40
SIZES = {"64 KiB": 2**14, "1 MiB": 2**18, "16 MiB": 2**22}
"""{name: float32 elements of a tensor}."""
FEWER = {"16 MiB": 40}
"""Tensors of sizes of which 300 would take too much disk."""
LIMIT = 1.3
RAW = "all | raw-index | raw"
HEADER = ["size of a tensor", "format", "ms, median", "of safetensors", "bytes read", "checked"]
TEXT = f"""A tensor of many is read in {{least:.2f}} to {{most:.2f}} of the time of safetensors.

{{targets}}
A file has {TENSORS} float32 tensors ({FEWER["16 MiB"]} of 16 MiB each). Each of {ROUNDS} repeats opens
the file, reads another tensor as a NumPy array, and closes the file, which is in the page
cache. Formats take turns in random order. {{versions}}.
Bytes read are those of one repeat. safetensors maps its file; its bytes are those of its
header and of the tensor.

{{table}}"""
Write: TypeAlias = Callable[[Path, Mapping[str, Array]], None]
Read: TypeAlias = Callable[[Path, str], Array]


def write_wirecodec(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write a closed stream."""
    with wc.open(path, "w") as file:
        file.append(tensors, RAW)


def read_wirecodec(path: Path, name: str) -> Array:
    """Read one tensor of a closed stream."""
    with wc.open(path) as file:
        return file.dense(name)


def read_verified(path: Path, name: str) -> Array:
    """Read one tensor, and compare the SHA-256 of its container."""
    with wc.open(path, verify=True) as file:
        return file.dense(name)


def write_safetensors(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write with safetensors."""
    import_module("safetensors.numpy").save_file(dict(tensors), path)


def read_safetensors(path: Path, name: str) -> Array:
    """Read one tensor with safetensors."""
    with import_module("safetensors").safe_open(path, framework="np") as file:
        found: Array = file.get_tensor(name)
        return found


def write_npz(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write without compression."""
    with path.open("wb") as file:
        np.savez(file, **tensors)  # type: ignore[arg-type]


def read_npz(path: Path, name: str) -> Array:
    """Read one member."""
    with np.load(path) as file:
        found: Array = file[name]
        return found


def write_hdf5(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write contiguous datasets."""
    with import_module("h5py").File(path, "w") as file:
        for name, tensor in tensors.items():
            file.create_dataset(name, data=tensor)


def read_hdf5(path: Path, name: str) -> Array:
    """Read one dataset."""
    with import_module("h5py").File(path, "r") as file:
        found: Array = file[name][()]
        return found


def write_zarr(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write arrays of one chunk each, without compression."""
    zarr = import_module("zarr")
    group = zarr.open_group(path, mode="w")
    for name, tensor in tensors.items():
        group.create_array(name, data=tensor, chunks=tensor.shape, compressors=None)


def read_zarr(path: Path, name: str) -> Array:
    """Read one array by its path."""
    return np.asarray(import_module("zarr").open_array(path / name, mode="r")[...])


FORMATS: dict[str, tuple[Write, Read, str]] = {
    "wirecodec": (write_wirecodec, read_wirecodec, "CRC-32, index by SHA-256"),
    "wirecodec, verify=True": (write_wirecodec, read_verified, "SHA-256"),
    "safetensors": (write_safetensors, read_safetensors, "no"),
    "npz": (write_npz, read_npz, "CRC-32"),
    "HDF5": (write_hdf5, read_hdf5, "no"),
    "zarr": (write_zarr, read_zarr, "no"),
}
"""{name: how to write, how to read, what is checked}."""


def count_read(read: Read, path: Path, name: str) -> int:
    """Return the bytes that the process reads."""

    def now() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    own = now()
    own = now() - own  # of this function's own reading
    before = now()
    read(path, name)
    return now() - before - own


def count_mapped(path: Path, nbytes: int) -> int:
    """Return the bytes of the header of a safetensors file, and of a tensor."""
    return 8 + int.from_bytes(path.read_bytes()[:8], "little") + nbytes


def measure(size: str, elements: int, rounds: int, folder: Path) -> list[list[str]]:
    """Measure all formats for one size of tensors; return rows of text, with the median first."""
    draw = np.random.default_rng(0)
    count = FEWER.get(size, TENSORS)
    tensors = {f"layers.{i}.weight": draw.standard_normal(elements, np.float32) for i in range(count)}
    names, paths = list(tensors), {}
    for number, (form, (write, read, _)) in enumerate(FORMATS.items()):
        paths[form] = folder / f"{number}"
        write(paths[form], tensors)
        assert all((read(paths[form], name) == tensors[name]).all() for name in names[:3]), form
    seconds: dict[str, list[float]] = {form: [] for form in FORMATS}
    for turn in range(rounds):
        for form in draw.permutation(list(FORMATS)).tolist():
            read = FORMATS[form][1]
            name = names[7 * turn % count]
            start = time.perf_counter()
            read(paths[form], name)
            seconds[form].append(time.perf_counter() - start)
    medians = {form: statistics.median(times) for form, times in seconds.items()}
    rows = []
    for form, (_, read, checked) in FORMATS.items():
        is_mapped = form == "safetensors"
        found = (
            count_mapped(paths[form], 4 * elements) if is_mapped else count_read(read, paths[form], names[5])
        )
        ratio = medians[form] / medians["safetensors"]
        rows.append([size, form, f"{1e3 * medians[form]:.3f}", f"{ratio:.2f}", f"{found:,}", checked])
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, and write the page if the run is complete."""
    options = create_parser(__doc__, __package__, quick=None).parse_args(arguments)
    sizes = dict(list(SIZES.items())[:1]) if options.quick else SIZES
    rows: list[list[str]] = []
    with show_steps() as step:
        for size, elements in sizes.items():
            step(size)
            with tempfile.TemporaryDirectory() as folder:
                rows += measure(size, elements, 5 if options.quick else ROUNDS, Path(folder))
    ours = [(row[0], float(row[3])) for row in rows if row[1] == "wirecodec"]
    target = check_at_most(f"one tensor: at most {LIMIT} of the time of safetensors", LIMIT, ours, "{:.2f}")
    versions = ", ".join(
        f"{name} {import_module(name).__version__}" for name in ("safetensors", "h5py", "zarr")
    )
    ratios = sorted(ratio for _, ratio in ours)
    text = TEXT.format(
        least=ratios[0],
        most=ratios[-1],
        targets=format_targets([target]),
        table=format_markdown(HEADER, rows),
        versions=versions,
    )
    print(text)
    if options.quick:
        print(PARTIAL_RUN)
        return
    print(write_result("files", "One tensor of many", text, describe_machine()))


if __name__ == "__main__":
    main(sys.argv[1:])
