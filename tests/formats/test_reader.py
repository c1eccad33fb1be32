"""The installed module wirecodec_reader: it needs nothing, and passes the vectors."""

from __future__ import annotations

import json
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
from wirecodec_reader import stream
from wirecodec_reader.container import decode
from wirecodec_reader.zstd import find_decompressor

loaded = [name for name in sys.modules if name.partition(".")[0] in ("formats", "wirecodec", "numpy")]
assert not loaded, loaded
from formats import conformance, streams

def check(data, limits, expected):
    one = isinstance(expected, conformance.One)
    schema = (expected.tensor and {"": expected.tensor}) if one else expected
    found = decode(data, reader.Limits(**limits), schema, single=one, zstd=find_decompressor())
    if expected is None:
        tensors = reader.read(data, reader.Limits(**limits))
        assert [len(x.values) for x in tensors.values()] == [len(x.indices) for x in found.tensors]
    return found.tag, [(t.name, t.dtype, t.shape, t.indices, t.values, t.absent) for t in found.tensors]

def split(data, limits):
    for part in stream.split(data, reader.Limits(**limits)):
        yield (part.application, part.body) if isinstance(part, stream.Unit) else len(part)

failures = conformance.run(check) + streams.run_streams(split)
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


def test_the_installed_reader_prints_the_text_form(installed: Path) -> None:
    command = [sys.executable, "-m", "wirecodec_reader.text_form"]
    done = subprocess.run(command, input=b"junk", capture_output=True, cwd=installed, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (1, b"")
    assert json.loads(done.stdout)[0]["refused"].startswith("Truncated prefix: ")


@pytest.mark.parametrize(
    ("dtype", "data", "numbers"),
    [
        ("float32", struct.pack("<2f", 1.5, -2), [1.5, -2]),
        ("float16", struct.pack("<2e", 0.5, -3), [0.5, -3]),
        ("float64", struct.pack("<2d", 1e300, 2**-60), [1e300, 2**-60]),
        ("bfloat16", b"\x80\x3f\x00\xc0", [1.0, -2.0]),
        ("int8", b"\x80\x7f", [-128, 127]),
        ("int16", b"\x00\x80\xff\xff", [-(2**15), -1]),
        ("int32", b"\x00\x00\x00\x80\x01\x00\x00\x00", [-(2**31), 1]),
        ("int64", bytes(7) + b"\x80" + b"\xff" * 8, [-(2**63), -1]),
        ("uint8", b"\x80\xff", [128, 255]),
        ("uint16", b"\x00\x01\xff\xff", [256, 2**16 - 1]),
        ("uint32", bytes(3) + b"\x01" + b"\xff" * 4, [2**24, 2**32 - 1]),
        ("uint64", bytes(7) + b"\x01" + b"\xff" * 8, [2**56, 2**64 - 1]),
        ("bool", b"\x01\x00", [True, False]),
        ("float8_e4m3fn", b"\x7e\x81", [448.0, -(2.0**-9)]),
        ("float8_e4m3fn", b"\x38\xb4", [1.0, -0.75]),
        ("float8_e5m2", b"\x7b\xfc", [57344.0, float("-inf")]),
        ("float8_e5m2", b"\x3c\x81", [1.0, -(2.0**-16)]),
        ("float8_e8m0fnu", b"\x80\xfe", [2.0, 2.0**127]),
        ("float4_e2m1fn_x2", b"\x71\xf2", [(0.5, 6.0), (1.0, -6.0)]),
        ("complex64", struct.pack("<4f", 1.5, -2, 0, 1), [1.5 - 2j, 1j]),
        ("complex128", struct.pack("<4d", 1e300, 0, -1, 2), [1e300 + 0j, -1 + 2j]),
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
    zero = {"float8_e8m0fnu": 2.0**-127, "float4_e2m1fn_x2": (0.0, 0.0)}.get(dtype, 0)
    assert tensor.to_list() == [zero, *numbers, zero]
    assert read_tag(blob) == b"tag"
