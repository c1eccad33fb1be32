"""Patches of weights that readers accept (spec/patch.md); each case is a file of vectors/patches."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from formats.patches import reference as apply
from formats.patches import to_names, write_state
from formats.reference import Zstd
from formats.reference.element_types import CODE_NAMED, TYPE_NAMED
from formats.reference.errors import WireError
from formats.reference.patch import WRAP, StateTensor, describe
from formats.reference.prng import draw32
from formats.reference.writing.index.bitmap import Bitmap
from formats.reference.writing.index.by_class import ByClass
from formats.reference.writing.index.huffman import Huffman
from formats.reference.writing.index.raw_index import RawIndex
from formats.reference.writing.patch import (
    RAW,
    WHOLE,
    Coding,
    Elements,
    PatchDraft,
    Positions,
    draft_patch,
    words_of,
)
from formats.reference.writing.value.steps import Steps, StepsZstd
from formats.vector_cases.case import Case, spread, values_for

State = dict[str, StateTensor]
SALT = 0x5A17
FLOATS = ("float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2")
PLAIN = Steps(signed=False)
USUAL = Coding()


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _by_class()
    yield from _places()
    yield from _steps()
    yield from _entries()
    yield from _types()
    yield from _tensors()
    yield from _fused()
    yield from _touched()
    yield from _states()


# ---- building blocks ----


def pack(words: Sequence[int], dtype: str) -> bytes:
    """Return words as little-endian elements."""
    return b"".join(word.to_bytes(TYPE_NAMED[dtype].itemsize, "little") for word in words)


def tensor(dtype: str, words: Sequence[int], shape: tuple[int, ...] | None = None) -> StateTensor:
    """Return a tensor of words."""
    return CODE_NAMED[dtype], (len(words),) if shape is None else shape, pack(words, dtype)


def weights(dtype: str, *shape: int, salt: int = 0) -> StateTensor:
    """Return a tensor of the fixed sequence of numbers, or of fixed bits."""
    size, item = math.prod(shape), TYPE_NAMED[dtype].itemsize
    if dtype in FLOATS[:4]:
        return CODE_NAMED[dtype], shape, values_for(size, dtype, salt)
    data = b"".join(struct.pack("<I", draw32(SALT + salt, n)) for n in range(size * item))[: size * item]
    return CODE_NAMED[dtype], shape, bytes(byte & 1 for byte in data) if dtype == "bool" else data


def move(old: StateTensor, indices: Sequence[int], by: Sequence[int] = (1, -1)) -> StateTensor:
    """Return a tensor in which the words at these indices are moved by the numbers in turn."""
    words, bits = words_of(old), 8 * len(old[2]) // max(math.prod(old[1]), 1)
    modulus = 2 if old[0] == CODE_NAMED["bool"] else 2**bits
    for n, i in enumerate(indices):
        words[i] = (words[i] + by[n % len(by)]) % modulus
    return old[0], old[1], b"".join(word.to_bytes(bits // 8, "little") for word in words)


def accepted(
    id: str,
    about: str,
    draft: PatchDraft | bytes,
    state: State,
    target: State,
    *,
    part: bool = False,
    limits: dict[str, int] | None = None,
) -> Case:
    """Build the case of a patch that readers must accept.

    Raises:
        AssertionError: if the reference makes another state.
    """
    data = draft if isinstance(draft, bytes) else draft.assemble()
    if apply(data, to_names(state), limits or {}, part) != to_names(target):
        raise AssertionError(f"{id} does not make the target")
    fields = _fields(id, about, "ok", None, data, state, part=part, limits=limits)
    return Case(f"patch-{id}", fields | {"target": write_state(to_names(target))})


def refused(
    id: str,
    about: str,
    kind: str,
    code: str,
    draft: PatchDraft | bytes,
    state: State,
    *,
    part: bool = False,
    limits: dict[str, int] | None = None,
) -> Case:
    """Build the case of a patch that readers must refuse for the stated reason.

    Raises:
        AssertionError: if the reference accepts it, or refuses it for another reason.
    """
    data = draft if isinstance(draft, bytes) else draft.assemble()
    try:
        apply(data, to_names(state), limits or {}, part)
    except WireError as error:
        if (error.kind, error.code) != (kind, code):
            raise AssertionError(f"{id} is refused with {error.kind} {error}, not {kind} {code}") from error
    else:
        raise AssertionError(f"{id} is accepted, not refused with {kind} {code}")
    return Case(f"patch-{id}", _fields(id, about, kind, code, data, state, part=part, limits=limits))


def _fields(
    id: str,
    about: str,
    kind: str,
    code: str | None,
    data: bytes,
    state: State,
    *,
    part: bool,
    limits: dict[str, int] | None,
) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": f"patch-{id}", "about": about, "result": kind}
    fields |= ({"code": code} if code else {}) | ({"limits": limits} if limits else {})
    fields |= {"part": True} if part else {}
    return fields | {"hex": data.hex(), "state": write_state(to_names(state))}


def one(
    id: str, about: str, old: StateTensor, new: StateTensor, coding: Coding = USUAL, **options: Any
) -> Case:
    """Build the case of a patch that changes one tensor."""
    draft = draft_patch({"w": old}, {"w": new}, {"w": coding}, **options)
    return accepted(id, about, draft, {"w": old}, {"w": new})


# ---- the codecs ----


def _by_class() -> Iterator[Case]:
    old = weights("bfloat16", 12, 15)
    new = move(old, spread(20, 180))
    usual = ByClass(7, 116, (20, 30, 40, 50, 60, 50, 40))
    contexts = Steps(shift=7, starts=(117, 121))
    yield one(
        "by-class",
        "20 of 180 weights change, by class and in three contexts.",
        old,
        new,
        Coding(usual, contexts),
    )
    for lanes in (2, 4, 8):
        coding = Coding(ByClass(7, 116, usual.codes, lanes), Steps())
        yield one(f"by-class-lanes-{lanes}", f"{lanes} lanes.", old, new, coding)
    few = weights("bfloat16", 40)
    coding = Coding(ByClass(7, 116, usual.codes, 8), Steps())
    about = "Eight lanes of 16 elements, of which five have none; the second has no change."
    yield one("by-class-lanes-empty", about, few, move(few, [3, 15, 33, 39]), coding)
    heavy = ByClass(7, 0, (96, 96))
    about = (
        "The heaviest weight: most changes follow symbols for places beyond, and have places on both sides."
    )
    yield one("by-class-beyond", about, old, new, Coding(heavy, Steps()))
    late = ByClass(7, 0, (96, 96), 2, late=True)
    about = "The same, each coded by its second symbol."
    yield one("by-class-beyond-late", about, old, new, Coding(late, Steps()))
    every = ByClass(7, 112, tuple(range(1, 97, 6)))
    yield one(
        "by-class-weights",
        "Weights of all octaves.",
        old,
        move(old, range(0, 180, 2)),
        Coding(every, Steps()),
    )
    dense = move(old, [i for i in range(180) if i % 25])
    yield one(
        "by-class-dense",
        "The smallest weight, and 172 of 180 changes.",
        old,
        dense,
        Coding(ByClass(7, 0, (1, 1)), Steps()),
    )
    where = [i for i, word in enumerate(words_of(old)) if word >> 7 & 255 == 120][::2]
    zero = ByClass(7, 119, (0, 30, 0))
    about = "Two classes of weight 0, in which nothing changes."
    yield one("by-class-zero", about, old, move(old, where), Coding(zero, Steps()))
    many = ByClass(4, 900, tuple(20 + n % 9 for n in range(64)))
    about = "64 classes of 2048 rows, the last beyond the highest row that occurs."
    yield one("by-class-64", about, old, new, Coding(many, Steps()))
    for first, about in (
        (255, "The first class is the last row."),
        (65_535, "The first class is beyond the rows."),
    ):
        coding = Coding(ByClass(7, first, (30, 50)), Steps())
        yield one(f"by-class-first-{first}", about, old, new, coding)
    x = weights("uint8", 70, salt=1)
    coding = Coding(ByClass(0, 300, (30, 50)), PLAIN)
    about = "The first class is beyond the rows, and its number needs more bits than an element has."
    yield one("by-class-first-wide", about, x, move(x, spread(9, 70)), coding)
    for dtype, shift in (
        ("float32", 23),
        ("float16", 10),
        ("float64", 52),
        ("float8_e4m3fn", 3),
        ("float8_e5m2", 2),
        ("int8", 0),
        ("uint8", 7),
        ("int16", 4),
        ("uint32", 20),
        ("int64", 63),
        ("bool", 0),
    ):
        x = weights(dtype, 70, salt=1)
        coding = Coding(ByClass(shift, 3, (30, 42, 37, 55)), Steps(signed=dtype in FLOATS))
        yield one(f"by-class-{dtype}", f"{dtype}, shifted by {shift}.", x, move(x, spread(9, 70)), coding)
    even = weights("bfloat16", 192)
    coding = Coding(ByClass(7, 116, usual.codes, 2), Steps())
    yield one("by-class-lanes-even", "Two lanes of 96 elements.", even, move(even, spread(20, 192)), coding)
    x = weights("float32", 17)
    yield one("by-class-one", "One change.", x, move(x, [16]), Coding(ByClass(23, 120, (40, 41))))
    yield one(
        "by-class-all-but-one",
        "All but the first.",
        x,
        move(x, range(1, 17)),
        Coding(ByClass(23, 120, (40, 41))),
    )


def _places() -> Iterator[Case]:
    """Yield changes at borders of the scale of by-class."""
    x = tensor("uint8", [0, 1, 2, 2, 2] * 12)
    about = "Far from the change before, few of the states stand for an element: its first or its last one."
    edges = Coding(ByClass(0, 0, (96, 81, 1)), PLAIN)
    yield one("by-class-edges", about, x, move(x, range(3, 60, 5)), edges)
    octaves = (81, 85, 87, 89, 90, 91, 92, 93, 94, 95, 96)
    x = tensor("uint8", [word for n in range(1, 12) for word in (n, 0, 0)])
    about = "Changes are little beyond the first place of a segment."
    segments = Coding(ByClass(0, 0, (1, *octaves)), PLAIN)
    yield one("by-class-segments", about, x, move(x, range(2, 33, 3), [64]), segments)
    x = tensor("uint8", [*[0] * 33, *(1 + 7 * n % 15 for n in range(60))])
    about = "The last state of an element, beside a place whose rise is a whole number."
    exact = Coding(ByClass(0, 0, (1, *range(20, 65, 3))), PLAIN)
    yield one("by-class-exact", about, x, move(x, [31, 41, 60, 63]), exact)


def _steps() -> Iterator[Case]:
    old = weights("float32", 60)
    far = [3, -4, 7, -8, 8, -9, 100, -5000, 2**15, -(2**16), 2**20, 2**24, -(2**29), 2**31 - 1, -(2**31)]
    for signed in (False, True):
        name = "signed" if signed else "unsigned"
        coding = Coding(value=Steps(signed))
        about = f"Steps of all lengths, {name}."
        yield one(f"steps-{name}", about, old, move(old, range(0, 60, 2), far), coding)
    about = "Four lanes; each fourth step is long."
    yield one(
        "steps-lanes",
        about,
        old,
        move(old, range(1, 60, 2), [1, -1, 2, 10**6, -3]),
        Coding(value=Steps(lanes=4)),
    )
    yield one(
        "steps-lanes-unused",
        "Four lanes, and two steps.",
        old,
        move(old, [7, 8]),
        Coding(value=Steps(lanes=4)),
    )
    steps = Steps(shift=21, starts=tuple(range(480, 510, 2)))
    about = "Sixteen contexts, of which some have no step."
    yield one("steps-contexts", about, old, move(old, range(0, 60, 3), far), Coding(value=steps))
    steps = Steps(signed=False, shift=23, starts=(255,))
    yield one(
        "steps-contexts-last",
        "The second context begins at the last row.",
        old,
        move(old, [5, 9]),
        Coding(value=steps),
    )
    x = tensor("float32", [0, 1, 2**23 - 1, 2**23, 0x80000000])
    contexts = Coding(value=Steps(shift=23, starts=(1,)))
    about = "Zero and subnormal numbers are in row 0, and the second context begins at row 1."
    yield one("steps-contexts-row-0", about, x, move(x, range(5), [1, 5, 9]), contexts)
    for dtype in ("float64", "uint64"):
        x = weights(dtype, 20, salt=2)
        wide = [2**63 - 1, -(2**63), 2**47, 2**48, -(2**31), 2**62, 1]
        coding = Coding(value=Steps(dtype == "float64", lanes=4))
        yield one(
            f"steps-{dtype}", f"Steps of up to 64 bits, of {dtype}.", x, move(x, range(20), wide), coding
        )
    full = Coding(value=Steps(table=(*[30] * 135, 46)))
    yield one("steps-table-full", "A table of all 136 symbols.", old, move(old, [0]), full)
    rare = Coding(value=Steps(table=(0, 1, 1, 4091, 1, 1, 1), lanes=4))
    about = "Symbols of frequency 1, at the least and the highest states."
    yield one("steps-table-rare", about, old, move(old, range(0, 60, 5), [1, 2, 3, -1, -2, -3]), rare)
    about = "All steps are alike: one symbol has all frequencies, and no word is needed."
    yield one("steps-alike", about, old, move(old, range(0, 60, 5), [1]), USUAL)
    eight = weights("uint8", 40)
    about = "Steps of 8 bits, at the end of the range of the type."
    yield one(
        "steps-uint8", about, eight, move(eight, range(0, 40, 3), [127, 128, 129, 255]), Coding(value=PLAIN)
    )
    for signed in (False, True):
        for shuffled in (False, True):
            value = StepsZstd(signed, Zstd(shuffle=shuffled))
            name = f"{'signed' if signed else 'unsigned'}{'-shuffled' if shuffled else ''}"
            about = f"Steps in a Zstandard frame, {name.replace('-', ', ')}."
            yield one(f"steps-zstd-{name}", about, old, move(old, range(0, 60, 4), far), Coding(value=value))
    for dtype in ("bfloat16", "uint8", "int64"):
        x = weights(dtype, 30, salt=3)
        value = StepsZstd(signed=dtype == "bfloat16")
        about = f"Steps of {dtype} in a Zstandard frame, of all elements."
        yield one(f"steps-zstd-{dtype}", about, x, move(x, range(0, 30, 2)), Coding(value=value, more=None))


def _entries() -> Iterator[Case]:
    """Yield other codecs of entries, and entries that have no section."""
    old = weights("float16", 5, 8)
    new = move(old, [0, 3, 4, 30, 39], [5, -1, 2])
    for name, index in (("raw-index", RawIndex()), ("bitmap", Bitmap()), ("huffman", Huffman())):
        coding = Coding(Positions(index), RAW)
        yield one(name, f"Positions in {name}, and elements as they are.", old, new, coding)
    coding = Coding(value=Elements(Zstd(shuffle=False)), more=[1, 2])
    yield one("zstd", "Elements in a Zstandard frame; two of them do not change.", old, new, coding)
    yield one("dense", "Steps of all elements, most of them 0.", old, new, Coding(value=Steps(), more=None))
    yield one(
        "dense-by-class",
        "The index codec by-class, without a section.",
        old,
        new,
        Coding(ByClass(10, 0, (1, 1)), more=None),
    )
    yield one("whole-same", "A whole tensor of the same shape and type.", old, new, WHOLE)
    yield one(
        "whole-zstd",
        "A whole tensor in a Zstandard frame.",
        old,
        new,
        Coding(value=Elements(Zstd()), more=None),
    )
    yield one("unchanged-steps", "An entry without present elements.", old, old, Coding())
    yield one(
        "unchanged-by-class",
        "The same, of the codec by-class.",
        old,
        old,
        Coding(ByClass(10, 0, (1, 1)), RAW),
    )
    yield one("unchanged-dense", "Steps of 0 for all elements.", old, old, Coding(value=Steps(), more=None))
    yield one("unchanged-whole", "A whole tensor that does not change.", old, old, WHOLE)


# ---- types and states ----


def _types() -> Iterator[Case]:
    old: State = {}
    new: State = {}
    codings: dict[str, Coding] = {}
    for n, dtype in enumerate(TYPE_NAMED):
        x = weights(dtype, 9, salt=n)
        old[dtype] = x
        new[dtype] = weights(dtype, 9, salt=n + 1) if dtype.startswith("complex") else move(x, [1, 4, 8])
        if not dtype.startswith("complex"):
            codings[dtype] = Coding(value=Steps(dtype in FLOATS))
    yield accepted("types", "A tensor of each element type.", draft_patch(old, new, codings), old, new)
    zeros = {
        "float32": (0, 0x80000000, 0x7FC00000, 0x7F800001, 0xFFC00123, 0x7F800000),
        "bfloat16": (0, 0x8000, 0x7FC0, 0x7F81, 0xFFC1, 0x7F80),
        "float16": (0, 0x8000, 0x7E00, 0x7C01, 0xFE12, 0x7C00),
        "float64": (0, 2**63, 0x7FF8 << 48, (0x7FF0 << 48) + 1, (0xFFF8 << 48) + 9, 0x7FF0 << 48),
        "float8_e5m2": (0, 0x80, 0x7D, 0x7E, 0xFF, 0x7C),
    }
    before = {name: tensor(name, words) for name, words in zeros.items()}
    after = {name: tensor(name, (*words[1:], words[0])) for name, words in zeros.items()}
    about = "+0, -0, infinity, and NaN of different bits become each other."
    yield accepted("bits", about, draft_patch(before, after), before, after)
    raw = draft_patch(before, after, dict.fromkeys(zeros, Coding(value=RAW)))
    yield accepted("bits-raw", "The same, as elements.", raw, before, after)


def _tensors() -> Iterator[Case]:
    same, long = weights("float32", 6), weights("bfloat16", 3, 4)
    old = {"b": same, "gone": weights("int8", 5), "ä": long, "a": long}
    new = {"b": move(same, [2]), "a": long, "ä": move(long, [0, 11])}
    yield accepted("removed", "A tensor is removed; one does not change.", draft_patch(old, new), old, new)
    draft = draft_patch(old, {"b": same})
    yield accepted("removed-several", "Three are removed, and nothing else changes.", draft, old, {"b": same})
    without = {name: old[name] for name in ("b", "a")}
    about = "The state lacks the removed tensors already."
    draft = draft_patch(old, {"b": same, "a": long})
    yield accepted("removed-complete", about, draft, without, without)
    made: State = {
        **{f"new.{dtype}": weights(dtype, 3, salt=7) for dtype in TYPE_NAMED},
        "0-d": weights("float32"),
        "empty": weights("float16", 0),
        "empty-2": weights("int64", 2, 0, 3),
        "5-d": weights("uint8", 1, 2, 1, 2, 1),
    }
    codings = {"empty-2": Coding(value=Elements(Zstd()), more=None)}
    about = "New tensors of all types, of 0 to 5 dimensions."
    yield accepted("new", about, draft_patch({}, made, codings), {}, made)
    shaped: State = {"w": (same[0], (2, 3), same[2])}
    yield accepted(
        "reshaped", "Equal bits of another shape.", draft_patch({"w": same}, shaped), {"w": same}, shaped
    )
    typed = {"w": (CODE_NAMED["int32"], same[1], same[2])}
    yield accepted(
        "retyped", "Equal bits of another type.", draft_patch({"w": same}, typed), {"w": same}, typed
    )
    none: State = {}
    yield accepted("nothing", "No tensor, before and after.", draft_patch(none, none), none, none)
    yield accepted("equal", "All tensors are equal: there is no entry.", draft_patch(old, old), old, old)
    scalar, empty = weights("bfloat16"), weights("float32", 0)
    before = {"0-d": scalar, "empty": empty, "m": long}
    after = {"0-d": move(scalar, [0]), "empty": empty, "m": move(long, [5])}
    draft = draft_patch(before, after, {"empty": Coding(), "0-d": Coding(), "m": Coding()})
    about = "A partial tensor without dimensions, one of two, and one without elements."
    yield accepted("shapes", about, draft, before, after)
    draft = draft_patch(before, after, {"m": Coding()}, shaped=["m", "0-d"])
    about = "The record of shapes has partial tensors, too."
    yield accepted("shapes-stated", about, draft, before, after)
    x = tensor("uint64", [find_word_of_digest_0()])
    about = "The digest of the base would be 0, and is 1."
    yield one("digest-1", about, x, move(x, [0]), Coding(value=PLAIN))
    zeros = tensor("uint8", [0] * 3000)
    draft = draft_patch({"w": zeros}, {"w": move(zeros, range(3000), [1])}, {"w": Coding(value=PLAIN)})
    about = "Row 27 of SPEC section 7 does not apply to partial tensors."
    ones = {"w": move(zeros, range(3000), [1])}
    yield accepted("expansion-partial", about, draft, {"w": zeros}, ones, limits={"max_expansion": 1})
    draft, whole = expanded(0)
    about = "As many elements of whole tensors as bytes: the limit is inclusive."
    yield accepted("expansion-met", about, draft, {}, whole, limits={"max_expansion": 1})


def find_word_of_digest_0() -> int:
    """Return the element of a uint64 tensor of shape (1,) whose folded sum is 0: ``close`` makes it 1."""
    total = unfold(0, 8) - describe(CODE_NAMED["uint64"], (1,))
    return unfold(total % WRAP, 1)


def unfold(y: int, number: int) -> int:
    """Return the word that ``fold`` mixes with a number to y."""
    x = (y ^ y >> 32) * pow(0x94D049BB133111EB, -1, WRAP) % WRAP
    x = (x ^ x >> 29 ^ x >> 58) * pow(0xBF58476D1CE4E5B9, -1, WRAP) % WRAP
    return ((x ^ x >> 32) - number * 0x9E3779B97F4A7C15) % WRAP


def expanded(more: int) -> tuple[PatchDraft, State]:
    """Return a patch with as many elements of a whole tensor as bytes, or more; and its target."""
    for size in range(8, 256, 8):
        target = {"w": tensor("uint8", [3] * (size + more))}
        draft = draft_patch({}, target, {"w": Coding(value=Elements(Zstd()), more=None)})
        if len(draft.assemble()) == size:
            return draft, target
    raise AssertionError("no size fits")


def _fused() -> Iterator[Case]:
    old = {
        "a": weights("bfloat16", 4, 3),
        "b": weights("bfloat16"),
        "c": weights("bfloat16", 0),
        "d": weights("bfloat16", 50, salt=5),
        "e": weights("bfloat16", 7, salt=9),
        "x": weights("bfloat16", 7, salt=9),
    }
    new = {
        **old,
        "a": move(old["a"], [0, 11]),
        "b": move(old["b"], [0]),
        "d": move(old["d"], [1, 20, 49], [1, 300]),
    }
    groups = [["a", "b", "c", "d", "e"]]
    for name, coding in (
        ("fused", Coding(ByClass(7, 118, (40, 30, 50)), Steps(shift=7, starts=(120,)))),
        ("fused-raw", Coding(value=RAW)),
        ("fused-dense", Coding(value=RAW, more=None)),
        ("fused-zstd", Coding(value=StepsZstd())),
    ):
        draft = draft_patch(old, new, {"a": coding, **dict.fromkeys("bcde", coding)}, groups=groups)
        about = "Five tensors share an entry: one has no dimension, one no element, and one does not change."
        yield accepted(name, about if name == "fused" else f"The same, {name[6:]}.", draft, old, new)
    full = {**new, "e": move(old["e"], range(7))}
    draft = draft_patch(
        old, full, dict.fromkeys("abcdex", Coding()), groups=[["a", "c", "x"], ["b", "d", "e"]]
    )
    yield accepted("fused-twice", "Two entries, whose tensors alternate.", draft, old, full)


def _touched() -> Iterator[Case]:
    old = {
        "a": weights("bfloat16", 30),
        "b": weights("bfloat16", 2, 5, salt=4),
        "gone": weights("int8", 2),
        "same": weights("float32", 3),
        "w": weights("float32", 4),
    }
    new = {
        "a": move(old["a"], [3, 17, 29]),
        "b": move(old["b"], [0, 9]),
        "new": weights("complex64", 2),
        "same": old["same"],
        "w": weights("float64", 4),
    }
    draft = draft_patch(old, new, touched=True)
    yield accepted("touched", "A patch whose reader looks at changed elements alone.", draft, old, new)
    other = {**old, "a": move(old["a"], [4], [9]), "same": weights("int8", 1), "more": old["w"]}
    wanted = {**new, "a": move(new["a"], [4], [9]), "same": weights("int8", 1), "more": old["w"]}
    about = "Elements and tensors that do not change are not those of the base; the patch does not detect it."
    yield accepted("touched-other", about, draft, other, wanted)
    yield accepted("touched-complete", "The state is the target.", draft, new, new)
    codings = {"a": Coding(Positions(Bitmap()), RAW)}
    draft = draft_patch(old, new, {**codings, "b": Coding()}, groups=[["a", "b"]], touched=True)
    yield accepted("touched-fused", "Two tensors share an entry.", draft, old, new)
    for name, more in (("none", ()), ("all", None)):
        draft = draft_patch(
            old, old, {"a": Coding(more=more), "b": Coding(value=StepsZstd(), more=more)}, touched=True
        )
        about = f"{name.capitalize()} of the elements are present, and none changes."
        yield accepted(f"touched-{name}", about, draft, old, old)


def _states() -> Iterator[Case]:
    """Yield states that are complete, half-written, or a part."""
    old = {
        "a": weights("bfloat16", 12),
        "b": weights("bfloat16", 5, salt=3),
        "c": weights("float32", 3),
        "d": weights("float32", 3),
    }
    new = {
        **old,
        "a": move(old["a"], [3, 7]),
        "b": move(old["b"], [0]),
        "c": weights("complex64", 2),
        "n": old["d"],
    }
    by_class = Coding(ByClass(7, 118, (40, 30, 50)))
    draft = draft_patch(old, new, {"a": by_class, "b": by_class})
    yield accepted("complete", "The state is the target: the patch is applied twice.", draft, new, new)
    half = {**old, "a": new["a"], "n": new["n"]}
    about = "Some keys are complete, and the others are those of the base."
    yield accepted("half-written", about, draft, half, new)
    damaged = draft_patch(old, new, {"a": by_class, "b": by_class})
    damaged.rows[0].index_section = b"\1\2\3\4"
    damaged.rows[0].value_section = bytes(3)
    damaged.rows[2].value_section = b"\0"
    about = "Nothing is decoded for complete keys: sections that are not valid are not detected."
    yield accepted("complete-undecoded", about, damaged, {**new, "b": old["b"]}, new)
    for names in ("acd", "bd", "d", ""):
        part = {name: old[name] for name in names}
        wanted = {**{name: new[name] for name in names}, "n": new["n"]}
        title = f"The state is a part: {', '.join(names) or 'no tensor'}."
        yield accepted(f"part-{names or 'none'}", title, draft, part, wanted, part=True)
    more = {**old, "z": old["c"], "d": old["c"]}
    about = "The caller says that the state is a part: tensors that do not change are not checked."
    yield accepted("part-other", about, draft, more, {**new, "z": old["c"], "d": old["c"]}, part=True)
    fused = draft_patch(old, new, {"a": by_class, "b": by_class}, groups=[["a", "b"]])
    yield accepted(
        "part-fused",
        "The state lacks both tensors of an entry.",
        fused,
        {"d": old["d"]},
        {"d": old["d"], "n": new["n"]},
        part=True,
    )
