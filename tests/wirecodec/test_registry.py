"""The four lists of codecs are one: classes, registry.toml, specification pages, reference decoder. And
``register``."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import wirecodec as wc
from formats.reference.index import codecs as index_codecs
from formats.reference.index.codecs import INDEX_CODECS
from formats.reference.map.packed import PACKED
from formats.reference.transform.coefficients import COMPONENTS, PLAIN
from formats.reference.value import codecs as value_codecs
from formats.reference.value.codecs import ORDERED, VALUE_CODECS
from wirecodec import registry
from wirecodec.container import based, extension_writer
from wirecodec.element_types import DTYPES, RECORD_DTYPES, name_of
from wirecodec.value import sort_permutation

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORMATS = Path(__file__).parents[2] / "formats"
ALL = tomllib.loads((FORMATS / "registry.toml").read_text())
ROWS = {kind: [row for row in rows if "needs" not in row] for kind, rows in ALL.items()}
"""Rows of what needs no base; those of patches of weights are compared on their own."""


@pytest.mark.parametrize(
    ("kind", "codecs"), [("index", registry.index_codecs()), ("value", registry.value_codecs())]
)
def test_classes_are_the_registry(kind: str, codecs: dict[int, Any]) -> None:
    assert {row["id"]: row["name"] for row in ROWS[kind]} == {i: c.name for i, c in codecs.items()}
    assert all(i == c.wire_id < registry.EXPERIMENTAL for i, c in codecs.items())


def test_transforms_are_the_registry() -> None:
    found = registry.transforms()
    assert {row["id"]: row["name"] for row in ROWS["domain"]} == {i: c.name for i, c in found.items()}
    assert {PLAIN: 1, **{i: c.width for i, c in found.items()}} == COMPONENTS


@pytest.mark.parametrize(
    ("kind", "folder"), [("index", "index"), ("value", "value"), ("map", "map"), ("domain", "transform")]
)
def test_pages_are_the_registry(kind: str, folder: str) -> None:
    pages = {row["page"] for row in ROWS[kind]}
    assert pages == {str(p.relative_to(FORMATS)) for p in (FORMATS / "spec" / folder).glob("*.md")}
    for row in ROWS[kind]:
        title = (FORMATS / row["page"]).read_text().splitlines()[0]
        assert re.search(rf"\b{row['name']}\b", title)
        assert str(row["id"]) in title


def test_the_reference_decoder_is_the_registry() -> None:
    assert {row["id"] for row in ROWS["index"]} == set(INDEX_CODECS)
    assert {row["id"] for row in ROWS["value"]} == set(VALUE_CODECS)


def test_maps_are_the_registry() -> None:
    assert [(row["id"], row["name"]) for row in ROWS["map"]] == [(PACKED, "packed")]
    assert PACKED == sort_permutation.PACKED
    assert {i for i, c in registry.value_codecs().items() if c.ordered} == ORDERED


def test_record_types_are_the_registry() -> None:
    flags = {**extension_writer.FLAGS, **extension_writer.LATER}
    assert {row["id"]: int(row["critical"]) for row in ROWS["record"]} == flags


def test_patches_of_weights_are_the_registry() -> None:
    of_patches = {
        kind: {row["id"]: row["name"] for row in ALL[kind] if row.get("needs") == "base"}
        for kind in ("index", "value", "record")
    }
    assert of_patches == {
        "index": based.INDEX_CODECS,
        "value": based.VALUE_CODECS,
        "record": {based.BASE: "base"},
    }
    assert of_patches["index"].keys() == {index_codecs.BY_CLASS}
    assert of_patches["value"].keys() == {value_codecs.STEPS, value_codecs.STEPS_ZSTD}


def test_element_types_are_the_registry() -> None:
    in_table = {i + 1: d.name for i, d in enumerate(DTYPES)}
    assert {row["id"]: row["name"] for row in ROWS["dtype"]} == in_table | {14: "types"}
    assert {row["id"]: row["name"] for row in ROWS["type"]} == {
        n: name_of(d) for n, d in RECORD_DTYPES.items()
    }


@dataclass(frozen=True)
class Doubled:
    """A codec of a user's own: raw indices, twice."""

    name: ClassVar[str] = "doubled"
    wire_id: ClassVar[int] = 0x90

    def encode(self, indices: Any, d: int, stream: int) -> Any:
        return np.concatenate([indices, indices]).astype("<u4").view(np.uint8)

    @classmethod
    def decode(cls, section: Any, d: int, r: int, limits: Any) -> Any:
        words = section.view("<u4")
        if section[0] == 77:
            raise KeyError("an ordinary bug")
        return words[:r].copy() if section[0] != 78 else words[::-1][:r].copy()


@dataclass(frozen=True)
class Halved:
    """A value codec of a user's own: truncated bfloat16."""

    name: ClassVar[str] = "halved"
    wire_id: ClassVar[int] = 0x91
    carries_nonfinite: ClassVar[bool] = True
    keep: int = 16

    def encode(self, values: Any, stream: int) -> Any:
        return (values.view(np.uint32) >> np.uint32(32 - self.keep)).astype("<u2").view(np.uint8)

    @classmethod
    def decode(cls, section: Any, r: int, dtype: Any, limits: Any) -> Any:
        return (section.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


@dataclass(frozen=True)
class EveryThird:
    """A selector of a user's own."""

    name: ClassVar[str] = "every-third"

    def select(self, x: Any, *, gradient: Any = None, state: Any = None, seed: int = 0) -> wc.Selection:
        return wc.Selection(np.arange(0, x.size, 3, dtype=np.int32))


@pytest.fixture
def own(own_registry: None) -> None:
    """The three registered for one test."""
    for cls in (Doubled, Halved, EveryThird):
        assert wc.register(cls) is cls


@pytest.mark.usefixtures("own")
def test_registered_codecs_work_like_any_other(rng: np.random.Generator) -> None:
    x = rng.normal(size=100).astype(np.float32)
    scheme = wc.Scheme.parse("every-third | doubled | halved(keep=16)")
    assert scheme == wc.Scheme(EveryThird(), Doubled(), Halved())
    assert str(scheme) == "every-third | doubled | halved"
    decoded = wc.decode(wc.encode(x, scheme))
    assert decoded.indices.tolist() == list(range(0, 100, 3))
    assert np.allclose(decoded.values, x[::3], rtol=2**-7)
    assert wc.inspect(wc.encode(x, scheme)).entries[0].index == "doubled"


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(("first", "code"), [(77, "codec-failed"), (78, "index-order")])
def test_nothing_but_wire_errors_escapes_a_registered_codec(first: int, code: str) -> None:
    tensor = wc.SparseTensor([first, 90, 95], np.ones(3, np.float32), (100,))
    with pytest.raises(wc.Invalid) as caught:
        wc.decode(wc.encode(tensor, "all | doubled | raw"))
    assert caught.value.code == code
    assert caught.value.entry == 0


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("wire_id", [0x80, 0xFF])
@pytest.mark.parametrize(("surplus", "dtype"), [(0, "f8"), (1, "f4"), (-1, "f4")])
def test_values_of_a_registered_codec_are_checked(wire_id: int, surplus: int, dtype: str) -> None:
    def decode(section: Any, r: int, _: Any, limits: Any) -> Any:
        return np.ones(r + surplus, dtype)

    changes = {"name": "wrong", "wire_id": wire_id, "decode": staticmethod(decode)}
    wc.register(type("Wrong", (Halved,), changes))
    with pytest.raises(wc.Invalid) as caught:
        wc.decode(wc.encode(np.ones(9, np.float32), "all | raw-index | wrong"))
    assert caught.value.code == "codec-failed"


@pytest.mark.usefixtures("own")
def test_a_wrong_selector_is_refused_before_any_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ([3, 2], [2, 2], [-1, 2], [0, 100], [0.5], [[1, 2]], list(range(99, -1, -1))):
        monkeypatch.setattr(EveryThird, "select", lambda *a, w=wrong, **k: wc.Selection(np.array(w)))
        with pytest.raises(wc.EncodeError, match="tensor 'w': indices"):
            wc.encode_many({"w": np.ones(100, np.float32)}, "every-third | rice | raw")
    monkeypatch.setattr(EveryThird, "select", lambda *a, **k: np.arange(3))
    for transform in ("", "dct | "):
        with pytest.raises(wc.EncodeError, match="every-third gave ndarray, not a Selection"):
            wc.encode(np.ones(100, np.float32), f"{transform}every-third | rice | raw")


def test_unregistered_ids_are_unsupported() -> None:
    blob = bytearray(wc.encode(np.ones(8, np.float32), "all | raw-index | raw"))
    from formats.reference import reseal

    for wire_id, says in ((0x90, "unknown index codec 0x90; it is user-defined"), (0x7F, "codec 0x7f$")):
        blob[24 + 37] = wire_id
        with pytest.raises(wc.Unsupported) as caught:
            wc.decode(reseal(bytes(blob)))
        assert caught.value.code == "index-codec"
        assert re.search(says, caught.value.message)


@pytest.mark.usefixtures("own")
def test_register_refuses_what_would_confuse() -> None:
    def variant(base: type, **changes: Any) -> type:
        return type("Variant", (base,), changes)

    class Plain:
        name, wire_id, carries_nonfinite = "plain", 0x94, True
        encode, decode = Halved.encode, Halved.decode

    @dataclass(frozen=True)
    class Unsaid:
        name: ClassVar[str] = "unsaid"
        wire_id: ClassVar[int] = 0x94
        encode, decode = Halved.encode, Halved.decode

    for wrong in (
        Plain,
        Unsaid,
        variant(Doubled, name="é-", wire_id=0x93),
        variant(Doubled, name="rice", wire_id=0x93),
        variant(Doubled, name="third", wire_id=3),
        variant(Doubled, name="third", wire_id=0x90),
        variant(Doubled, name="third", wire_id=0x100),
        variant(Doubled, name="Third", wire_id=0x93),
        variant(Doubled, name="", wire_id=0x93),
        variant(EveryThird, name="topk"),
        type("Nothing", (), {"name": "nothing"}),
    ):
        with pytest.raises(wc.EncodeError):
            wc.register(wrong)


@pytest.mark.parametrize("stage", ["index codec", "value codec", "selector"])
def test_each_codec_has_a_test_file_of_its_name(stage: str) -> None:
    """wirecodec/index/rice.py is tested by tests/wirecodec/index/test_rice.py, sidco by test_sidco.py."""
    for cls in registry._stages[stage].values():
        _, room, *_, module = cls.__module__.split(".")
        words = (module, cls.name.replace("-", "_"))
        assert any((Path(__file__).parent / room / f"test_{word}.py").exists() for word in words), cls


def test_errors_of_own_parts_say_what_is_wrong(own_registry: None) -> None:
    @wc.register
    @dataclass(frozen=True)
    class Floats:
        name: ClassVar[str] = "floats"
        wire_id: ClassVar[int] = 0x91
        carries_nonfinite: ClassVar[bool] = False

        def encode(self, values: Any, stream: int) -> Any:
            return values

        @classmethod
        def decode(cls, section: Any, r: int, dtype: Any, limits: Any) -> Any:
            return section

    x = np.ones(9, np.float32)
    with pytest.raises(wc.EncodeError, match=r"codec 'floats' encoded to no bytes: a float32 array"):
        wc.encode(x, "all | raw-index | floats")
    with pytest.raises(wc.EncodeError, match="not ascending: the first is 5, and the last 3"):
        wc.SparseTensor(np.array([5, 3]), np.ones(2, np.float32), (100,))
    with pytest.raises(wc.EncodeError, match=r"ratio is 5; it must be at most 1; k=5 is a number"):
        wc.encode(x, "topk(5) | rice | raw")
