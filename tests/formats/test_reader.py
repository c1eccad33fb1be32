"""The installed module wirecodec_reader: it needs nothing, and passes the vectors."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from formats import conformance
from formats.reference import Tensor, write
from formats.reference.reader import read, read_tag

pytest.importorskip("setuptools", minversion="77", reason="setuptools 77 builds the wheel")

FORMATS = Path(conformance.__file__).resolve().parent
CONFORM = """
import sys
sys.path[:0] = sys.argv[1:3]
import wirecodec_reader as reader
from wirecodec_reader.container import decode
from wirecodec_reader.zstd import find_decompressor

loaded = [name for name in sys.modules if name.partition(".")[0] in ("formats", "wirecodec", "numpy")]
assert not loaded, loaded
from formats import conformance

def check(data, limits, expected):
    one = isinstance(expected, conformance.One)
    schema = (expected.tensor and {"": expected.tensor}) if one else expected
    found = decode(data, reader.Limits(**limits), schema, single=one, zstd=find_decompressor())
    if expected is None:
        tensors = reader.read(data, reader.Limits(**limits))
        assert [len(x.values) for x in tensors.values()] == [len(x.indices) for x in found.tensors]
    return found.tag, [(t.name, t.dtype, t.shape, t.indices, t.values) for t in found.tensors]

failures = conformance.run(check)
assert not [name for name in sys.modules if name.startswith("formats.reference")]
print(len(failures), *failures[:3])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the module from a copy of the folder, because setuptools writes beside its sources."""
    folder = tmp_path_factory.mktemp("reader")
    ignore = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", "vectors", "vector_cases")
    shutil.copytree(FORMATS, folder / "formats", ignore=ignore)
    options = ("--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")
    pip = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder / "site")]
    done = subprocess.run([*pip, str(folder / "formats/reader")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_the_installed_reader_passes_the_vectors(installed: Path) -> None:
    assert {path.name for path in installed.iterdir() if "-" not in path.name} == {"wirecodec_reader"}
    command = [sys.executable, "-c", CONFORM, str(installed), str(FORMATS.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


@pytest.mark.parametrize(
    ("dtype", "data", "numbers"),
    [
        ("float32", struct.pack("<2f", 1.5, -2), [1.5, -2]),
        ("float16", struct.pack("<2e", 0.5, -3), [0.5, -3]),
        ("float64", struct.pack("<2d", 1e300, 2**-60), [1e300, 2**-60]),
        ("bfloat16", b"\x80\x3f\x00\xc0", [1.0, -2.0]),
    ],
)
def test_values_are_numbers(dtype: str, data: bytes, numbers: list[float]) -> None:
    blob = write([Tensor("w", dtype, (2, 2), [1, 2], data)], "bitmap", tag=b"tag")
    tensor = read(blob)["w"]
    assert (tensor.dtype, tensor.shape, list(tensor.indices), tensor.values) == (
        dtype,
        (2, 2),
        [1, 2],
        numbers,
    )
    assert tensor.to_list() == [0, *numbers, 0]
    assert read_tag(blob) == b"tag"
