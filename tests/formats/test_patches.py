"""Patches of weights: the library and the reference reader apply them alike (formats/spec/patch.md)."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import zstandard

import wirecodec as wc
from formats.reference import Limits, Record, Row, Tensor, WireError, assemble, decode, patch, reseal, write
from formats.reference.container import read_header, split_entry
from formats.reference.extension import BASE, KNOWN_FLAGS
from formats.reference.writing.assembly import write_extension_block
from formats.zstd import find_decompressor
from tests.formats.test_registry import ERRORS, REGISTRY
from tests.fuzz.mutate import mutate_container
from wirecodec.arrays import UNSIGNED
from wirecodec.element_types import element_dtype_named, number_of
from wirecodec.limits import DecodeLimits
from wirecodec.patch import positions, steps
from wirecodec.patch.host import of_array
from wirecodec.patch.reading import prepare

State = dict[str, np.ndarray[Any, Any]]
Verdict = tuple[str, Any]
Edit = Callable[[bytes], bytes] | None
ZSTD = find_decompressor()
pytestmark = pytest.mark.skipif(ZSTD is None, reason="needs a Zstandard decompressor")

FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
BITS = "float8_e8m0fnu", "float4_e2m1fn_x2"
TYPES = (*FLOATS, *INTEGERS, *BITS, "bool", "complex64", "complex128")


def dtype_named(name: str) -> np.dtype[Any]:
    return element_dtype_named(getattr(ml_dtypes, name, None) or name)


def plain(state: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, patch.StateTensor]:
    """Return a state as the reference reader takes it."""
    return {
        name: (number_of(element_dtype_named(x.dtype)), x.shape, x.tobytes()) for name, x in state.items()
    }


def weights(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return weights of a normal distribution; integers and complex numbers are their bits."""
    dtype = dtype_named(name)
    if name in FLOATS:
        return np.asarray(rng.normal(0, 0.02, shape)).astype(dtype)
    if name in BITS:
        return np.asarray(rng.integers(0, 256, shape)).astype(np.uint8).view(dtype)
    if name == "bool":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if name in INTEGERS:
        return np.asarray(rng.integers(0, 100, shape)).astype(dtype)
    return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def change(
    rng: np.random.Generator, x: np.ndarray[Any, Any], share: float, wide: float = 0.1
) -> np.ndarray[Any, Any]:
    """Change some elements, most of them by one unit in the last place."""
    new: np.ndarray[Any, Any] = x.copy()
    if x.dtype == bool:
        return np.asarray(new ^ (rng.random(x.shape) < share))
    if x.dtype.kind == "c":
        return np.asarray(new + (rng.random(x.shape) < share))
    words = new.reshape(-1).view(UNSIGNED[x.dtype.itemsize])
    chosen = np.flatnonzero(rng.random(words.size) < share)
    steps = rng.choice([1, -1], chosen.size).astype(np.int64)
    far = rng.random(chosen.size) < wide
    steps[far] = rng.integers(-(2**62), 2**62, int(far.sum())) >> rng.integers(0, 62, int(far.sum()))
    words[chosen] += steps.view(np.uint64).astype(words.dtype)
    return new


def states(seed: int) -> tuple[State, State]:
    """Return two states of all types, with tensors that are new, gone, reshaped and of another type."""
    rng = np.random.default_rng(seed)
    old: State = {}
    new: State = {}
    for name in TYPES:
        for number, size in enumerate(rng.choice([0, 1, 7, 64, 300, 2500], 2)):
            shape = (int(size),) if number or size % 4 else (4, int(size) // 4)
            old[f"{name}.{number}"] = weights(rng, name, shape)
            share = float(rng.choice([0.01, 0.1, 0.6, 1]))
            new[f"{name}.{number}"] = change(rng, old[f"{name}.{number}"], share)
    old["scalar"] = weights(rng, "bfloat16", ())
    new["scalar"] = -old["scalar"]
    old["zeros"] = np.zeros(50, "f4")
    new["zeros"] = np.where(np.arange(50) % 3 == 0, np.float32(-0.0), old["zeros"])
    old["equal"] = new["equal"] = weights(rng, "float32", (20,))
    old["gone"] = weights(rng, "float16", (9,))
    new["new"] = weights(rng, "float64", (3, 2))
    old["reshaped"], new["reshaped"] = old["equal"].copy(), old["equal"].reshape(4, 5).copy()
    old["retyped"], new["retyped"] = np.zeros(5, "i4"), np.zeros(5, "f4")
    return old, new


def by_library(blob: bytes, state: State, *, partial: bool = False) -> Verdict:
    copy = {name: x.copy() for name, x in state.items()}
    try:
        prepared = prepare(np.frombuffer(blob, np.uint8), copy, DecodeLimits(), partial_state=partial)
    except wc.WireError as error:
        return type(error).__name__, error.code
    prepared.commit(copy)
    return "ok", plain(copy)


def by_reference(blob: bytes, state: State, *, partial: bool = False) -> Verdict:
    try:
        return "ok", patch.apply(blob, plain(state), partial=partial, zstd=ZSTD)
    except WireError as error:
        return error.kind, error.code


@pytest.mark.parametrize("base", ["read", "unread"])
@pytest.mark.parametrize("seed", range(4))
def test_both_readers_make_the_target(seed: int, base: str) -> None:
    old, new = states(seed)
    blob = wc.diff(old, new, base=base).tobytes()
    for state in (old, new):
        assert by_library(blob, state) == by_reference(blob, state) == ("ok", plain(new))
    part = {name: old[name] for name in list(old)[::2] if name != "gone"}
    assert by_library(blob, part, partial=True) == by_reference(blob, part, partial=True)
    assert by_library(blob, part) == by_reference(blob, part)
    wrong = {**old, "bfloat16.1": old["bfloat16.1"][:0]}
    assert by_library(blob, wrong) == by_reference(blob, wrong)
    with pytest.raises(WireError) as caught:
        decode(blob, zstd=ZSTD)
    assert caught.value.kind == "Unsupported"


@pytest.mark.parametrize("name", FLOATS[:3])
@pytest.mark.parametrize("share", [0.02, 0.7])
def test_lanes(name: str, share: float) -> None:
    """Long entries have several lanes, of positions and of steps."""
    rng = np.random.default_rng(1)
    old = {"w": weights(rng, name, (40, 4500) if share < 0.1 else (4500,))}
    new = {"w": change(rng, old["w"], share, wide=0.01)}
    blob = wc.diff(old, new).tobytes()
    assert by_library(blob, old) == by_reference(blob, old) == ("ok", plain(new))


def test_dense_changes_of_tensors_that_share_an_entry() -> None:
    """The smallest coding of all elements may be that of a whole tensor, which a fused entry is not."""
    rng = np.random.default_rng(2)
    old = {name: weights(rng, "float32", (300,)) for name in "ab"}
    new = {name: np.full(300, 7, "f4") for name in "ab"}
    for seed in ("read", "unread"):
        blob = wc.diff(old, new, base=seed).tobytes()
        assert by_library(blob, old) == by_reference(blob, old) == ("ok", plain(new))


def small() -> list[tuple[State, bytes]]:
    """Return some bases, and a patch of each."""
    rng = np.random.default_rng(3)
    found = []
    for name, size, share in (
        ("bfloat16", 700, 0.1),
        ("float32", 400, 0.05),
        ("float64", 60, 0.5),
        ("uint8", 90, 0.3),
        ("bool", 60, 0.5),
        ("float16", 6000, 0.5),
    ):
        old = {"a": weights(rng, name, (size,)), "b": weights(rng, name, (5,)), "c": np.ones(3, "f4")}
        new = {"a": change(rng, old["a"], share), "b": change(rng, old["b"], 1.0), "d": np.zeros(2, "c8")}
        for base in ("read", "unread"):
            found.append((old, wc.diff(old, new, base=base).tobytes()))
    return found


def rebuild(
    blob: bytes,
    *,
    index: Edit = None,
    value: Edit = None,
    body: Edit = None,
    index_id: int | None = None,
    value_id: int | None = None,
) -> bytes:
    """Change the sections and the codecs of the first entry, and the body of the record."""
    header = read_header(blob, Limits(), supported={1, 7}, based=True)
    rows, at = [], header.payload
    for e in header.entries:
        (_, own_index), (_, own_value), _ = split_entry(blob, at, e)
        at += e.payload_bytes
        rows.append(Row(e.key, e.base, e.d, e.r, e.dtype_byte, e.index, e.value, own_index, own_value))
    first = rows[0]
    first = replace(
        first,
        index_section=index(first.index_section) if index else first.index_section,
        value_section=value(first.value_section) if value else first.value_section,
        index=first.index if index_id is None else index_id,
        value=first.value if value_id is None else value_id,
    )
    bodies = header.records | ({BASE: body(header.records[BASE])} if body else {})
    records = [Record(kind, KNOWN_FLAGS.get(kind, 1), own) for kind, own in bodies.items()]
    return assemble([first, *rows[1:]], write_extension_block(records), minor=1)


def put(at: int, new: bytes) -> Edit:
    """Return a function that replaces bytes."""
    return lambda old: old[: at % len(old)] + new + old[at % len(old) + len(new) :]


def put_all(new: bytes) -> Edit:
    """Return a function that replaces all bytes."""
    return lambda old: new


def pieces(monkeypatch: pytest.MonkeyPatch, base: str) -> list[tuple[str, State, State, bytes]]:
    """Return (name, base, target, patch) of small ones with lanes, contexts, frames and removed tensors."""
    monkeypatch.setattr(positions, "LEAST_OF_LANES", 4)
    monkeypatch.setattr(steps, "LEAST_OF_LANES", 4)
    rng = np.random.default_rng(6)
    old = weights(rng, "bfloat16", (1200,))
    small = np.abs(old) < 0.01
    some = np.where(small, change(rng, old, 0.35, 0.9), change(rng, old, 0.06, 0))
    wide = weights(rng, "float64", (40,))
    turned = np.where(np.arange(40) % 9 == 1, -wide, change(rng, wide, 0.5))
    gone: State = {"gone": wide[:2], "lost": wide[:3]}
    pairs = [
        ("lanes", {"a": old, **gone}, {"a": some}),
        ("dense", {"a": old[:200]}, {"a": change(rng, old[:200], 0.7, 0.9)}),
        ("turned", {"a": wide}, {"a": turned}),
        ("frames", {"a": wide}, {"a": change(rng, wide, 1), "new": np.arange(70) % 2 == 0}),
        ("whole", {"a": wide[:5], "b": wide}, {"a": wide[:6], "b": wide}),
    ]
    return [(*two, wc.diff(*two[1:], base=base).tobytes()) for two in pairs]


def distant() -> tuple[State, State, bytes]:
    """Return a base, a target, and a patch whose gaps are longer than one symbol can tell."""
    indices = np.array([0, 1, 9, 10, 300, 301, 302, 590], np.uint32)
    old = {"a": np.geomspace(1e-4, 1e3, 600).astype(ml_dtypes.bfloat16)}
    new = {"a": old["a"].copy()}
    words = new["a"].view(np.uint16)
    words[indices] += 1
    classes, changed = positions.Classes(7, 116, 6), np.array([8, 12, 15, 4, 8, 12])
    section = positions.encode(of_array(old["a"], (600,)), indices, classes, changed, np.full(6, 16))
    blob = wc.diff(old, new).tobytes()
    return old, new, rebuild(blob, index=put_all(section.tobytes()), index_id=positions.BY_CLASS)


def edit_bytes(old: bytes) -> Iterator[bytes]:
    """Yield byte strings that differ in one of the first bytes, or in their length."""
    for at in range(min(len(old), 60)):
        yield old[:at]
        borders = (0, 1, 2, 3, 4, 16, 17, 64, 65, 136, 137, 255) if at < 12 else ()
        for byte in {old[at] ^ 1, old[at] ^ 128, (old[at] + 4) % 256, *borders} - {old[at]}:
            yield old[:at] + bytes([byte]) + old[at + 1 :]
    yield from (old + bytes(n) for n in (1, 4, 8))


def read_parts(blob: bytes) -> dict[str, bytes]:
    """Return the sections of the first entry, and the record, by their names in ``rebuild``."""
    header = read_header(blob, Limits(), supported={1, 7}, based=True)
    (_, index), (_, value), _ = split_entry(blob, header.payload, header.entries[0])
    return {"index": index, "value": value, "body": header.records[BASE]}


def edited(blob: bytes) -> Iterator[bytes]:
    """Yield patches with a change in a section of the first entry, or in the record."""
    for part, old in read_parts(blob).items():
        for new in edit_bytes(old):
            edit: dict[str, Any] = {part: put_all(new)}
            yield rebuild(blob, **edit)


@pytest.mark.parametrize("base", ["read", "unread"])
@pytest.mark.parametrize("number", range(5))
def test_parts_with_one_change(monkeypatch: pytest.MonkeyPatch, number: int, base: str) -> None:
    name, old, new, blob = pieces(monkeypatch, base)[number]
    assert by_library(blob, old) == ("ok", plain(new))
    if (name, base) == ("lanes", "read"):
        parts = read_parts(blob)
        assert parts["index"][4] == 8  # lanes of by-class
        assert parts["value"][1:4] == bytes([3, 7, 2])  # signed, in 4 lanes, with a shift of 7 and 2 contexts
    if (name, base) == ("turned", "unread"):
        assert read_parts(blob)["value"][4] == 136  # symbols: a turned sign is a step of 64 bits
    seen = set()
    for mutant in edited(blob):
        one, other = by_library(mutant, old), by_reference(mutant, old)
        assert one == other, mutant.hex()
        seen.add(one[1] if one[0] != "ok" else "ok")
    assert len(seen) > 6, name


def test_positions_that_are_far_from_each_other() -> None:
    old, new, blob = distant()
    assert by_library(blob, old) == by_reference(blob, old) == ("ok", plain(new))
    for section in edit_bytes(read_parts(blob)["index"]):
        mutant = rebuild(blob, index=put_all(section))
        assert by_library(mutant, old) == by_reference(mutant, old), mutant.hex()


def frame(shuffle: int, descriptor: int, head: bytes, *blocks: tuple[int, int, bytes]) -> bytes:
    """Return a section of zstd whose frame has blocks of (type, size, bytes)."""
    parts = [bytes([shuffle]), b"\x28\xb5\x2f\xfd", bytes([descriptor]), head]
    for at, (kind, size, content) in enumerate(blocks, 1):
        header = (at == len(blocks)) | kind << 1 | size << 3
        parts += [header.to_bytes(3, "little"), content]
    return b"".join(parts)


def framed() -> Iterator[tuple[bool, bytes, State]]:
    """Yield whether a patch is valid, the patch, and its base: 600 equal bytes in frames of all forms."""
    old, new = {"a": np.zeros(1, "u1")}, {"a": np.full(600, 7, "u1")}
    blob = wc.diff(old, new).tobytes()
    size, plenty = struct.pack("<H", 600 - 256), (1, 600, b"\7")
    for is_valid, section in (
        (True, frame(0, 0x60, size, plenty)),
        (True, frame(1, 0x60, size, plenty)),
        (True, frame(0, 0x60, size, (1, 599, b"\7"), (0, 1, b"\7"))),
        (True, frame(0, 0xE0, struct.pack("<Q", 600), (0, 600, bytes([7]) * 600))),
        (True, frame(0, 0x60, size, plenty, (0, 0, b""))),
        (True, frame(0, 0xA0, struct.pack("<I", 600), plenty)),
        (True, frame(0, 0x40, b"\0" + size, plenty)),
        (True, frame(0, 0x40, bytes([13 << 3]) + size, plenty)),
        (False, frame(0, 0x40, bytes([13 << 3 | 1]) + size, plenty)),
        (False, frame(0, 0x40, bytes([12 << 3 | 7]) + size, (1, 2**17 + 1, b"\7"))),
        (False, frame(0, 0x40, b"\7" + size, (1, 1921, b"\7"))),
        (False, frame(0, 0x40, b"\7" + size, (1, 1920, b"\7"))),
        (False, frame(0, 0x60, size, (1, 601, b"\7"))),
        (False, frame(0, 0x60, size, (1, 600, b""))),
        (False, frame(0, 0x60, size, (3, 600, b"\7"))),
        (False, frame(0, 0x60, size, (0, 600, bytes(599)))),
        (False, frame(0, 0x60, size, plenty, (0, 1, b"\7"))),
        (False, frame(0, 0x60, size, plenty) + b"\0"),
    ):
        yield is_valid, rebuild(blob, value=put_all(section)), old


def test_frames() -> None:
    for is_valid, blob, old in framed():
        found = by_library(blob, old)
        assert found == by_reference(blob, old), blob.hex()
        assert (found[0] == "ok") == is_valid


def stepped() -> Iterator[tuple[str, bytes, State]]:
    """Yield (code, patch, base) of patches of one element whose only step is coded in a way of its own."""
    old = {"a": np.ones(9, np.float16)}
    blob = wc.diff(old, {"a": np.where(np.arange(9) == 4, np.float16(2), old["a"])}).tobytes()
    states = [struct.pack("<Q", 2**31 << bits | 5) for bits in (14, 15)]
    certain = [bytes([s + 1]) + bytes(s) + b"\x80\x20" for s in (39, 40)]  # a table of one symbol
    starts = {n: np.arange(1, n, dtype="<u2").tobytes() for n in (16, 17)}
    for code, head, *rest in (
        ("base-target", b"\0\0\0\1", certain[0], states[0]),  # a step of 16 bits, 14 of them raw
        ("steps-stream", b"\0\0\0\1", certain[1], states[1]),  # and of 17 bits
        ("steps-stream", b"\0\0\0\1", certain[0], states[1]),
        ("base-target", b"\0\0\7\x10", starts[16], 16 * certain[0], states[0]),
        ("steps-head", b"\0\0\7\x11", starts[17], 17 * certain[0], states[0]),
        ("base-target", b"\0\0\4\2\xff\7", 2 * certain[0], states[0]),
        ("steps-length", b"\0\0\0\1", certain[0] + b"\0\1", states[0]),
        ("steps-contexts", b"\0\0\4\2\0\x08", 2 * certain[0], states[0]),
        ("steps-head", b"\0\0\3\2\1\0", 2 * certain[0], states[0]),
        ("steps-head", b"\0\0\x10\2\1\0", 2 * certain[0], states[0]),
        ("steps-length", b"\0\0\0\1\x88\1\1\1"),
        ("steps-table", b"\0\0\0\1\x89\1\1\1"),
        ("steps-table", b"\0\0\0\1", b"\0\0\0\0"),
        ("steps-table", b"\0\0\0\1", certain[0][:-1] + b"\x21", states[0]),
        ("steps-length", b"\0\0\4\2\1\0\1\x80"),
    ):
        tables = head + b"".join(rest[:-1])
        section = b"".join([tables, bytes(-len(tables) % 4), *rest[-1:]])
        yield code, rebuild(blob, value=put_all(section), value_id=steps.STEPS), old
    wide = {"a": np.zeros(9, np.uint64)}
    blob = wc.diff(wide, {"a": (np.arange(9) == 4).astype(np.uint64)}).tobytes()
    for code, symbol, state in (  # raw bits leave 2^31 of each state
        ("base-target", 73, struct.pack("<Q", 2**62)),
        ("steps-stream", 73, struct.pack("<QI", 2**30, 0)),  # the first state is too small
        ("steps-stream", 75, struct.pack("<Q", 2**63)),  # or too large
    ):
        section = b"\0\0\0\1" + bytes([symbol + 1]) + bytes(symbol) + b"\x80\x20"
        section += bytes(-len(section) % 4) + state
        yield code, rebuild(blob, value=put_all(section), value_id=steps.STEPS), wide


def test_steps_in_ways_of_their_own() -> None:
    for code, blob, old in stepped():
        assert by_library(blob, old) == by_reference(blob, old) == (ERRORS[code], code), blob.hex()


REFUSALS: dict[str, dict[str, Any]] = {
    "base-record": {"body": put(0, b"\2")},
    "base-names": {"body": put(-1, b"\xff")},
    "base-entries": {"value_id": 5},
    "base-target": {"body": put(32, b"x")},
    "by-class-length": {"index": lambda old: old[:4]},
    "by-class-head": {"index": put(0, b"\xc8")},
    "by-class-codes": {"index": put(8, b"a")},
    "by-class-lanes": {"index": put(1, b"\2\0\0\2\0\0\0\1\1\0\0\xff\xff\xff\xff")},
    "by-class-stream": {"index": lambda old: old + bytes(4)},
    "steps-length": {"value": lambda old: old + b"\0"},
    "steps-head": {"value": put(0, b"\1")},
    "steps-contexts": {"value": put(0, b"\0\1\7\2\0\0")},
    "steps-table": {"value": put(0, b"\0\1\0\1\x89")},
    "steps-stream": {"value": lambda old: old + bytes(4)},
}


def refused() -> Iterator[tuple[str, bytes, State]]:
    """Yield a patch and a state for each code of the page."""
    old = {"a": np.geomspace(1e-3, 1, 4000).astype(ml_dtypes.bfloat16), "b": np.ones(5, "f4")}
    old |= {"c": np.ones(3, "f4"), "d": np.ones(3, "f4")}
    new = {"a": old["a"].copy(), "b": old["b"], "d": old["d"] + 1}
    new["a"].view("u2")[:600:7] += 1
    blob = wc.diff(old, new).tobytes()
    for code, edits in REFUSALS.items():
        yield code, rebuild(blob, **edits), old
    yield "base-absent", write([Tensor("a", "float32", (1,), [0], bytes(4))]), old
    yield "base-tensors", blob, {**old, "more": old["a"]}
    yield "base-tensors", blob, {name: old[name] for name in "bcd"}
    yield "base-shape", blob, {**old, "a": old["a"].view("u2")}
    yield "base", blob, {**old, "a": -old["a"]}
    yield "base", blob, {**old, "c": old["c"] + 1}
    yield "base", blob, {**old, "b": old["b"] + 1}


def test_every_code_is_shown() -> None:
    """Registered codes that need a base are those that both readers report."""
    seen = set()
    for code, blob, state in refused():
        kind = ERRORS[code]
        assert by_reference(blob, state) == (kind, code)
        assert by_library(blob, state) == (kind, code)
        seen.add(code)
    assert seen == {error["code"] for error in REGISTRY["error"] if error.get("needs") == "base"}


def false_bools() -> Iterator[tuple[bytes, State]]:
    """Yield patches that make a 2 of an element of bool, and their base."""
    old = {"w": np.zeros(9, bool)}
    for present, codec, section in (
        (9, 1, b"\2" + bytes(8)),
        (9, 7, b"\0" + zstandard.ZstdCompressor().compress(b"\2" + bytes(8))),
        (1, 1, b"\2"),
    ):
        blob = wc.diff(old, {"w": np.arange(9) < present}).tobytes()
        after = struct.pack("<Q", patch.seal((number_of(np.dtype(bool)), (9,), b"\2" + bytes(8))))
        yield rebuild(blob, body=put(32, after), value=put_all(section), value_id=codec), old


def test_an_element_of_bool_is_0_or_1() -> None:
    for wrong, old in false_bools():
        assert by_library(wrong, old) == by_reference(wrong, old) == ("Invalid", "bool-value")


def mutants(number: int, count: int) -> tuple[State, Iterator[bytes]]:
    """Return a small base, and modified patches of it, most of them with correct checksums."""
    rng = random.Random(number)
    patches = small()
    old, blob = patches[number]
    others = [other for _, other in patches]

    def draw() -> bytes:
        mutant = mutate_container(blob, others, rng)
        if rng.random() < 0.5:
            damaged = bytearray(blob)
            for _ in range(rng.choice((1, 1, 2))):
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            mutant = reseal(bytes(damaged))
        return mutant

    return old, (draw() for _ in range(count))


@pytest.mark.parametrize("number", range(12))
def test_mutants_have_the_same_verdict(number: int) -> None:
    old, drawn = mutants(number, 150)
    seen = set()
    for mutant in drawn:
        one, other = by_library(mutant, old), by_reference(mutant, old)
        assert one == other, mutant.hex()
        seen.add(one[:1] if one[0] == "ok" else one)
    assert len(seen) > 8
