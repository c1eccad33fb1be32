"""Every kernel compiles for every architecture, to a CPU's arithmetic; and the cache of compiled kernels."""

from __future__ import annotations

import builtins
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import wirecodec as wc
from wirecodec.kernels.cuda import build, device, nvrtc

ARCHITECTURES = (75, 80, 90, 100)
FUSED = re.compile(r"^\s*(?:fma\.|mad\.\w*\.?f|\S*\.ftz|\S*\.approx)", re.M)
FLOATS = re.compile(r"^\s*((?:add|sub|mul|div|sqrt)\.\S*f(?:16|32|64))\s", re.M)
"""Arithmetic; without ".rn" the assembler may fuse a product and a sum."""


pytestmark = pytest.mark.usefixtures("compiler")


@pytest.mark.sampled
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", build.source_names())
def test_compiles_to_plain_arithmetic(name: str, architecture: int) -> None:
    if architecture not in nvrtc.architectures():
        pytest.skip(f"NVRTC {nvrtc.version()} does not know sm_{architecture}")
    made = build.compile_source(name, f"sm_{architecture}")
    text = made.ptx.decode()
    assert f".target sm_{architecture}" in text
    assert made.binary.startswith(b"\x7fELF")
    assert not FUSED.findall(text)
    assert [each for each in FLOATS.findall(text) if ".rn" not in each] == []


def test_the_check_finds_fused_arithmetic() -> None:
    text = (
        'extern "C" __global__ void f(float* x, double* y)'
        "{ x[0] = x[1] * x[2] + x[3]; x[4] = x[5] / x[6]; y[0] = y[1] * y[2] + y[3]; }"
    )
    target = "--gpu-architecture=compute_80"
    loose = nvrtc.compile_source(text, "f.cu", {}, [target, "--ftz=true"]).ptx.decode()
    assert {each.strip() for each in FUSED.findall(loose)} >= {"fma.", "div.rn.ftz"}
    strict = nvrtc.compile_source(text, "f.cu", {}, [target, *build.FLAGS]).ptx.decode()
    assert not FUSED.findall(strict)
    assert sorted(FLOATS.findall(strict)) == [
        "add.rn.f32",
        "add.rn.f64",
        "div.rn.f32",
        "mul.rn.f32",
        "mul.rn.f64",
    ]


def test_a_source_that_does_not_compile() -> None:
    with pytest.raises(
        wc.DeviceError, match=r"wrong\.cu does not compile: .*identifier \"nothing\" is undefined"
    ):
        nvrtc.compile_source("__device__ int x = nothing;", "wrong.cu", {}, ["--gpu-architecture=compute_80"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(build, "_folder", lambda: tmp_path)
    return tmp_path


def test_the_cache_key_covers_all_inputs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build.build_image("packing", 90)
    written = first.stat().st_mtime_ns
    assert build.build_image("packing", 90) == first
    assert first.stat().st_mtime_ns == written
    assert [each.name for each in folder.iterdir()] == [first.name], "nothing half-written is left"
    others = {build.build_image("packing", 80)}
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "--extra-device-vectorization"))
    others.add(build.build_image("packing", 90))
    changed = {name: text + "\n" for name, text in build.read_headers().items()}
    monkeypatch.setattr(build, "read_headers", lambda: changed)
    others.add(build.build_image("packing", 90))
    monkeypatch.setattr(nvrtc, "version", lambda: (99, 9))
    others.add(build.build_image("packing", 90))
    assert len(others | {first}) == 5


def test_a_device_newer_than_the_compiler_gets_ptx(folder: Path) -> None:
    newest = max(nvrtc.architectures())
    assert build.choose_architecture(newest + 1) == (newest, False)
    made = build.build_image("packing", newest + 1)
    assert made.suffix == ".ptx"
    assert f".target sm_{newest}" in made.read_text()


def test_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a"))
    assert build._folder.__wrapped__() == tmp_path / "a" / "wirecodec" / "cuda"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    elsewhere = build._folder.__wrapped__()
    assert elsewhere.is_dir()
    elsewhere.rmdir()


def test_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_places", lambda: ["libnot-there.so"])
    with pytest.raises(wc.DeviceError, match=r"install nvidia-cuda-nvrtc-cu12.*libnot-there"):
        nvrtc._library.__wrapped__()


def test_missing_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "cupy":
            raise ImportError("No module named 'cupy'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(wc.DeviceError, match="pip install cupy-cuda12x"):
        device.cupy_device()


def test_missing_device(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(RuntimeError):
        pass

    def refuse() -> int:
        raise Refused("cudaErrorInsufficientDriver: CUDA driver version is insufficient")

    runtime = SimpleNamespace(getDevice=refuse, CUDARuntimeError=Refused)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    with pytest.raises(wc.DeviceError, match="no GPU can be used: cudaErrorInsufficientDriver"):
        device.cupy_device()
