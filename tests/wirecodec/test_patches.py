"""Patches arrive as they were sent, all elements with their bits, or the scheme is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.registry import stages
from wirecodec.settings.scheme import parse_stage

VALUES = np.array([0.0, -0.0, 7.1, np.nan, 1e-40], np.float32)
PATCH = wc.SparseTensor([1, 3, 4, 8, 9], VALUES, (2, 6), absent="unchanged")
LOSSLESS = ["raw", "deflate", "zstd"]


class Sparing(wc.selectors.NonZero):
    """Selector of a user, derived from a lossless one."""

    name = "sparing"


def same(found: wc.SparseTensor, values: Any = VALUES) -> bool:
    return found.absent == "unchanged" and found.values.tobytes() == np.asarray(values).tobytes()


@pytest.mark.parametrize("value", LOSSLESS)
@pytest.mark.parametrize("index", [name for name in stages()["index codec"] if name != "bloom"])
@pytest.mark.parametrize("select", ["all", "nonzero"])
def test_every_element_of_a_patch_arrives(select: str, index: str, value: str) -> None:
    scheme = f"{select} | {index} | {value}"
    assert same(wc.decode(wc.encode(PATCH, scheme)))
    found = wc.decode_many(wc.encode_many({"a": PATCH, "b": VALUES}, {"*": scheme}, fuse=64))
    assert same(found["a"])
    assert found["a"].indices.tolist() == PATCH.indices.tolist()


ARGUMENTS = {"budget": "(4)", "chunk-topk": "(0.5, chunk=2)", "adacomp": ""}
OTHERS = [name for name in stages()["selector"] if name not in ("all", "nonzero")]


@pytest.mark.parametrize("name", [*OTHERS, "sparing"])
def test_selectors_that_may_drop_elements_are_refused(name: str) -> None:
    select = Sparing() if name == "sparing" else parse_stage("selector", name + ARGUMENTS.get(name, "(0.5)"))
    scheme = wc.Scheme(select, wc.codecs.Rice(), wc.codecs.Raw())
    with pytest.raises(wc.EncodeError, match="use all"):
        wc.encode(PATCH, scheme)
    with pytest.raises(wc.EncodeError, match=r"tensor 'w': .*use all"):
        wc.encode_many({"w": PATCH}, scheme, lossy=True)


@pytest.mark.parametrize("preset", wc.PRESETS)
def test_presets_change_no_patch(preset: str) -> None:
    with pytest.raises(wc.EncodeError, match="patch"):
        wc.encode(PATCH, wc.preset(preset))


@pytest.mark.parametrize("value", [name for name in stages()["value codec"] if name not in LOSSLESS])
def test_lossy_values_need_a_word_of_the_caller(value: str) -> None:
    tensor = wc.SparseTensor([1, 3], np.array([1, 2], "f4"), 5, absent="unchanged")
    scheme = f"all | rice | {value}"
    with pytest.raises(wc.EncodeError, match=r"use raw, deflate or zstd.*lossy=True"):
        wc.encode(tensor, scheme)
    with pytest.raises(wc.EncodeError, match=r"tensor 'w': .*use raw, deflate or zstd.*lossy=True"):
        wc.encode_many({"w": tensor}, scheme)
    with pytest.raises(wc.EncodeError, match="lossy=True"):
        wc.encode(np.ones(5, "f4"), scheme, absent="unchanged")
    assert wc.decode(wc.encode(tensor, scheme, lossy=True)).indices.tolist() == [1, 3]
    assert wc.decode(wc.encode(tensor, scheme, absent="zero")).absent == "zero"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("stored", ["float16", "bfloat16"])
def test_storage_in_16_bits_is_lossless_for_16_bits(dtype: str, stored: str) -> None:
    import ml_dtypes

    values = np.array([1.1, 0], getattr(np, dtype, None) or ml_dtypes.bfloat16)
    patch = wc.SparseTensor([1, 3], values, 5, absent="unchanged")
    if values.itemsize == 2:
        assert same(wc.decode(wc.encode(patch, f"all | rice | raw({stored})")), values)
    else:
        with pytest.raises(wc.EncodeError, match="raw rounds the values"):
            wc.encode(patch, f"all | rice | raw({stored})")


@pytest.mark.parametrize("scheme", ["dct | all | rice | raw", "all | bloom | raw"])
def test_other_elements_are_never_changed(scheme: str) -> None:
    with pytest.raises(wc.EncodeError, match="patch"):
        wc.encode(PATCH, scheme, lossy=True)


def test_a_patch_of_a_framework() -> None:
    torch = pytest.importorskip("torch")
    values = torch.tensor([0.0, -0.0, 3.0])
    tensor = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 1]], values, (2, 6), check_invariants=True)
    found = wc.decode(wc.encode(tensor, "nonzero | rice | raw", absent="unchanged"))
    assert same(found, values.numpy())
