"""Patches of CuPy arrays and of torch's CUDA tensors: the bytes of the host, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.inputs import Array
from wirecodec.kernels.cuda.device import CupyDevice
from wirecodec.patch.apply import digest_state

KINDS = ["float32", "float16", "float64", "int8", "uint16", "int64", "bool", "complex64"]


def pair_of(kind: str, size: int, share: float) -> tuple[Array, Array]:
    """Draw weights, and the same with a share of small elements changed."""
    rng = np.random.default_rng(size)
    old = (rng.normal(0, 50 if np.dtype(kind).kind in "iu" else 0.02, size)).astype(kind)
    new, words = old.copy(), f"u{np.dtype(kind).itemsize}"
    if kind in ("bool", "complex64"):
        return old, np.where(rng.random(size) < share, ~old if kind == "bool" else -old, old)
    changed = rng.random(size) < share * np.where(np.abs(old.astype(float)) < 0.01, 2, 0.2)
    new.view(words)[changed] ^= np.dtype(words).type(1)
    return old, new


@pytest.mark.parametrize("base", ["read", "unread"])
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_and_elements(cupy: Any, kind: str, base: str) -> None:
    for size, share in (
        (0, 0),
        (1, 1),
        (777, 0.1),
        (100_003, 0.01),
        (100_003, 0),
        (50_000, 0.5),
        (2**22 + 5, 0.01),
    ):
        old, new = pair_of(kind, size, share)
        patch = wc.diff({"w": old, "v": old[:99]}, {"w": new, "v": new[:99]}, base=base)
        a, b = ({"w": cupy.asarray(x), "v": cupy.asarray(x[:99])} for x in (old, new))
        assert np.array_equal(wc.diff(a, b, base=base), patch)
        assert np.array_equal(wc.diff({"w": old, "v": a["v"]}, b, base=base), patch)
        tensor = a["w"]
        wc.apply(patch, a)
        assert a["w"] is tensor
        assert cupy.asnumpy(tensor).tobytes() == new.tobytes()
        assert digest_state(a) == digest_state({"w": new, "v": new[:99]})


def test_several_chunks(cupy: Any) -> None:
    old, new = pair_of("float16", 2**25 + 12_345, 0.01)
    patch = wc.diff({"w": old}, {"w": new})
    a, b = ({"w": cupy.asarray(x)} for x in (old, new))
    assert np.array_equal(wc.diff(a, b), patch)
    wc.apply(patch, a)
    assert cupy.asnumpy(a["w"]).tobytes() == new.tobytes()


def test_parts_of_arrays(cupy: Any) -> None:
    old, new = pair_of("float16", 50_000, 0.02)
    for view in (np.s_[1:], np.s_[3:40_001], np.s_[::2], np.s_[::-1]):
        patch = wc.diff({"w": old[view]}, {"w": new[view]})
        a, b = (cupy.asarray(x)[view] for x in (old, new))
        assert np.array_equal(wc.diff({"w": a}, {"w": b}), patch)
        wc.apply(patch, {"w": a})
        assert cupy.asnumpy(a).tobytes() == new[view].tobytes()


def test_a_refused_patch_changes_nothing(cupy: Any) -> None:
    old, new = pair_of("float32", 300_000, 0.01)
    patch = wc.diff({"a": old, "b": old}, {"a": new, "b": new})
    wrong = old.copy()
    wrong[-1] += 1
    state = {"a": cupy.asarray(old), "b": cupy.asarray(wrong)}
    with pytest.raises(wc.SchemaMismatch):
        wc.apply(patch, state)
    assert cupy.asnumpy(state["a"]).tobytes() == old.tobytes()


def test_only_changed_elements_are_copied(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched, get = list[int](), CupyDevice.get

    def count(self: CupyDevice, array: Any) -> Array:
        fetched.append(array.nbytes)
        return get(self, array)

    monkeypatch.setattr(CupyDevice, "get", count)
    old, new = pair_of("float16", 2**24, 0.01)
    changed = int(np.count_nonzero(old.view("u2") != new.view("u2")))
    a, b = ({"w": cupy.asarray(x)} for x in (old, new))
    patch = wc.diff(a, b)
    assert sum(fetched) < 20 * changed + 10_000
    fetched.clear()
    wc.apply(patch, a)
    assert sum(fetched) < 8 * changed + 1000


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float32"])
@pytest.mark.parametrize("on_own_stream", [False, True])
def test_torch(cupy: Any, name: str, on_own_stream: bool) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    old = {"w": (0.02 * torch.randn(3000, 1000)).to(getattr(torch, name)), "b": torch.ones(70)}
    new = {key: x.clone() for key, x in old.items()}
    words = new["w"].view(-1).view(torch.uint8)
    words[:: 64 * new["w"].element_size()] ^= 1
    patch = wc.diff(old, new)
    with torch.cuda.stream(torch.cuda.Stream() if on_own_stream else torch.cuda.current_stream()):
        a, b = ({key: x.cuda(non_blocking=True) for key, x in state.items()} for state in (old, new))
        assert np.array_equal(wc.diff(a, b), patch)
        memory = a["w"].data_ptr()
        wc.apply(patch, a)
        equal = all(torch.equal(a[key].view(torch.uint8), b[key].view(torch.uint8)) for key in a)
    assert equal
    assert a["w"].data_ptr() == memory
    rows = {"w": old["w"].cuda().t()}
    wc.apply(wc.diff({"w": old["w"].t()}, {"w": new["w"].t()}), rows)
    assert torch.equal(rows["w"].t().contiguous().view(torch.uint8), new["w"].cuda().view(torch.uint8))
