"""Patches of weights that readers refuse (spec/patch.md); each case is a file of vectors/patches."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from formats.reference import PolyFit, Raw, Record, Spectrum, Zstd, write
from formats.reference.extension import BASE, NAMES
from formats.reference.rans import LEAST
from formats.reference.writing.index.bitmap import Bitmap
from formats.reference.writing.index.by_class import ByClass
from formats.reference.writing.index.raw_index import RawIndex
from formats.reference.writing.patch import RAW, WHOLE, Coding, Elements, PatchDraft, Positions, draft_patch
from formats.reference.writing.records import write_names
from formats.reference.writing.value.steps import Steps, StepsZstd
from formats.vector_cases.case import Case, patch, sparse
from formats.vector_cases.patches import PLAIN, State, expanded, move, refused, tensor, weights

WEIGHTS = weights("bfloat16", 40)
OLD: State = {
    "a": WEIGHTS,
    "b": weights("float32", 3),
    "c": weights("float32", 3, salt=3),
    "gone": weights("int8", 4),
}
NEW: State = {"a": move(WEIGHTS, [3, 7, 20, 33]), "b": OLD["b"], "c": OLD["c"]}
BY_CLASS = ByClass(7, 118, (40, 30, 50))
CONTEXTS = Steps(shift=7, starts=(119, 121))
CODING = Coding(BY_CLASS, CONTEXTS)
Edit = Callable[[bytes], bytes]
MISMATCH = "SchemaMismatch"
BASIS, TENSORS, SHAPE = (MISMATCH, "base"), (MISMATCH, "base-tensors"), (MISMATCH, "base-shape")


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _record()
    yield from _entries()
    yield from _by_class()
    yield from _steps()
    yield from _steps_zstd()
    yield from _states()
    yield from _targets()


def changed(*, coding: Coding = CODING, **options: Any) -> PatchDraft:
    """Return the patch of this module's states."""
    return draft_patch(OLD, NEW, {"a": coding}, **options)


def edited(
    *,
    index: Edit | None = None,
    value: Edit | None = None,
    body: Edit | None = None,
    row: dict[str, Any] | None = None,
    coding: Coding = CODING,
) -> PatchDraft:
    """Return that patch with another index section, value section, record, or fields of its entry."""
    draft = changed(coding=coding)
    (entry,) = draft.rows
    if index:
        entry = replace(entry, index_section=index(entry.index_section))
    if value:
        entry = replace(entry, value_section=value(entry.value_section))
    if body:
        draft.records[BASE] = body(draft.records[BASE])
    return PatchDraft([replace(entry, **(row or {}))], draft.records)


def put(at: int, layout: str, *numbers: int) -> Edit:
    """Return a function that writes integers over some bytes."""
    return lambda old: patch(old, at, layout, *numbers)


def given(section: bytes) -> Edit:
    """Return a function that replaces all bytes."""
    return lambda old: section


# ---- the record ----


def _record() -> Iterator[Case]:
    plain = write([sparse("a", 40, [3], "bfloat16")])
    yield refused("absent", "A container that is no patch.", "Unsupported", "base-absent", plain, OLD)
    yield refused(
        "damaged", "A bit of the payload is damaged.", "ChecksumMismatch", "entry-checksum", _flip(-1), OLD
    )
    yield refused(
        "damaged-head", "A bit of the record is damaged.", "ChecksumMismatch", "head-checksum", _flip(90), OLD
    )
    padded = changed(coding=Coding(Positions(RawIndex()), more=[0]))
    (row,) = padded.rows
    padded.rows[0] = replace(row, index_section=row.index_section + b"\1", index_len=len(row.index_section))
    yield refused("padding", "Padding after a section is not 0.", "Malformed", "padding", padded, OLD)
    touched = draft_patch(OLD, NEW, touched=True).records[BASE]
    for id, about, body in (
        ("short", "The body has 23 bytes.", lambda old: old[:23]),
        ("head", "The body has 24 bytes, and no digests.", lambda old: old[:24]),
        ("form", "The form is 2.", put(0, "B", 2)),
        ("form-0", "The form is 0.", put(0, "B", 0)),
        ("flags", "A reserved bit of the flags.", put(1, "B", 2)),
        ("flags-touched", "The reserved bit without the other.", given(patch(touched, 1, "B", 2))),
        ("reserved", "Reserved bytes are not 0.", put(2, "H", 1)),
        ("further", "Further reserved bytes are not 0.", put(12, "I", 1)),
        ("removed", "More removed tensors than the body has.", put(4, "I", 2)),
        ("removed-most", "2^32 - 1 removed tensors.", put(4, "I", 2**32 - 1)),
        ("removed-none", "A removed tensor is not counted.", put(4, "I", 0)),
        ("more", "A byte follows the names.", lambda old: old + b"x"),
        ("less", "The last byte of the names is missing.", lambda old: old[:-1]),
        ("lengths", "The names end within the lengths.", lambda old: old[:-5]),
        ("touched-unchanged", "A touched patch counts unchanged tensors.", given(patch(touched, 8, "I", 1))),
        ("touched-rest", "A touched patch has a digest of them.", given(patch(touched, 16, "Q", 1))),
    ):
        yield refused(f"record-{id}", about, "Malformed", "base-record", edited(body=body), OLD)
    about = "The form comes before the names."
    both = edited(body=lambda old: patch(old, 0, "B", 9)[:-4] + b"\xff\xff\xff\xff")
    yield refused("record-first", about, "Malformed", "base-record", both, OLD)
    two = {**OLD, "gone2": OLD["gone"]}
    draft = draft_patch(two, NEW, {"a": CODING})
    for id, about, names in (
        ("utf8", "A removed name is not UTF-8.", b"gone\xffone2"),
        ("order", "Removed names descend.", b"gonfgone2"),
        ("patched", "A removed name is that of a tensor of the patch.", None),
    ):
        bodies = {BASE: draft.records[BASE][:-9] + names} if names else {NAMES: write_names([b"gone"])}
        wrong = PatchDraft(draft.rows, draft.records | bodies)
        yield refused(f"names-{id}", about, "Invalid", "base-names", wrong, two)
    equal = draft.records[BASE][:-13] + struct.pack("<HH", 4, 4) + b"gonegone"
    wrong = PatchDraft(draft.rows, draft.records | {BASE: equal})
    yield refused("names-equal", "A name is removed twice.", "Invalid", "base-names", wrong, two)


def _flip(at: int) -> bytes:
    """Return the patch with a bit of one byte flipped."""
    data = bytearray(changed().assemble())
    data[at] ^= 4
    return bytes(data)


def _entries() -> Iterator[Case]:
    refusal = "Invalid", "base-entries"
    for id, about, fields in (
        ("index", "The index codec is rle.", {"index": 4}),
        ("value", "The value codec is qsgd.", {"value": 4}),
        ("value-narrow", "The value codec is raw-float16.", {"value": 2, "dtype": 1}),
    ):
        wrong = edited(row=fields, coding=Coding(BY_CLASS, RAW))
        yield refused(f"entries-{id}", about, *refusal, wrong, OLD)
    extra = [Record(BASE, 1, draft_patch({}, {"a": OLD["b"]}).records[BASE])]
    wave = Spectrum("a", "float32", (2,), [0], OLD["b"][2][:4], 2)
    blob = write([wave], value=Raw(), extra=extra)
    yield refused("entries-domain", "A tensor is given as coefficients.", *refusal, blob, {})
    curve = PolyFit(0, 1)
    blob = write([sparse("a", 40, [3, 9])], value=curve, extra=extra)
    yield refused("entries-map", "The value codec is polyfit, and the entry has a map.", *refusal, blob, {})
    both = draft_patch(OLD, NEW, {"a": Coding(BY_CLASS, more=None)}, touched=True)
    about = "A touched patch has the codec by-class, if only in an entry without a section."
    yield refused("entries-touched", about, *refusal, both, OLD)
    both = draft_patch(OLD, NEW, {"a": CODING}, touched=True)
    yield refused(
        "entries-touched-section", "A touched patch has a section of by-class.", *refusal, both, OLD
    )
    numbers = weights("complex64", 5)
    old, new = {"w": numbers, "x": numbers}, {"w": move(numbers, [1]), "x": move(numbers, [2])}
    draft = draft_patch(old, new, {"w": Coding(value=RAW), "x": WHOLE})
    yield refused("entries-complex", "A complex tensor is partial.", *refusal, draft, old)
    draft = draft_patch(old, new, {"w": Coding(value=RAW, more=None), "x": WHOLE}, groups=[["w", "x"]])
    yield refused("entries-complex-fused", "Complex tensors share an entry.", *refusal, draft, old)
    draft, _ = expanded(1)
    about = "One element of a whole tensor more than bytes."
    yield refused(
        "expansion", about, "LimitExceeded", "max-expansion", draft, {}, limits={"max_expansion": 1}
    )
    draft, _ = expanded(0)
    draft.rows[0].value_section = b"\2" + draft.rows[0].value_section[1:]
    about = "At the limit, the next check is that of the codec."
    yield refused(
        "expansion-next", about, "Malformed", "zstd-parameter", draft, {}, limits={"max_expansion": 1}
    )
    for limits, code in (
        ({"max_bytes": 8}, "max-bytes"),
        ({"max_dense": 39}, "max-dense"),
        ({"max_elements": 3}, "max-elements"),
        ({"max_entries": 0}, "max-entries"),
    ):
        yield refused(
            f"limit-{code}", f"The limit {code}.", "LimitExceeded", code, changed(), OLD, limits=limits
        )
    first = patch(changed().assemble(), 16, "Q", 2**63 + 1)
    about = "The limit comes before the length."
    limits = {"max_bytes": 8}
    yield refused("limit-first", about, "LimitExceeded", "max-bytes", first, OLD, limits=limits)


# ---- the codecs ----


def _by_class() -> Iterator[Case]:
    for id, about, code, index in (
        ("head-8", "Eight bytes, whose head is not valid.", "head", lambda old: patch(old, 1, "B", 1)[:8]),
        ("length-7", "A section of 7 bytes.", "length", lambda old: old[:7]),
        ("length-4", "A section of 4 bytes.", "length", lambda old: old[:4]),
        ("length-odd", "A section of no multiple of 4 bytes.", "length", lambda old: old + b"\0\0"),
        ("head-classes-1", "One class.", "head", put(1, "B", 1)),
        ("head-classes-65", "65 classes.", "head", put(1, "B", 65)),
        ("head-shift", "As many low bits as the element has.", "head", put(0, "B", 16)),
        ("head-rows", "4096 rows.", "head", put(0, "B", 3)),
        ("head-lanes", "Three lanes.", "head", put(4, "B", 3)),
        ("head-lanes-0", "No lane.", "head", put(4, "B", 0)),
        ("head-lanes-16", "16 lanes.", "head", put(4, "B", 16)),
        ("head-reserved", "The first reserved byte is not 0.", "head", put(5, "B", 1)),
        ("head-reserved-last", "The last reserved byte is not 0.", "head", put(7, "B", 1)),
        ("length-head", "The codes run past the section.", "length", lambda old: old[:8]),
        (
            "length-padding",
            "The counts run past the section.",
            "length",
            lambda old: patch(old, 4, "B", 2)[:12],
        ),
        ("codes", "A code of 97.", "codes", put(9, "B", 97)),
        ("codes-last", "The last code is 97.", "codes", put(10, "B", 97)),
        ("codes-padding", "Padding after the codes is not 0.", "length", put(11, "B", 1)),
        ("stream-none", "There is no stream.", "stream", lambda old: old[:12]),
        ("stream-short", "The state has 4 bytes.", "stream", lambda old: old[:16]),
        ("stream-state", "The first state is below 2^31.", "stream", put(12, "Q", LEAST - 1)),
        ("stream-state-most", "The first state is 2^63.", "stream", put(12, "Q", 2**63)),
        ("stream-words", "A word is missing.", "stream", lambda old: old[:-4]),
        ("stream-more", "A word is left.", "stream", lambda old: old + bytes(4)),
        ("stream-place", "No element of the lane has the place.", "stream", put(8, "3B", 1, 1, 1)),
        ("stream-zero", "All weights are 0.", "stream", put(8, "3B", 0, 0, 0)),
    ):
        kind = "Malformed" if code in ("length", "head") else "Invalid"
        wrong = edited(index=index)
        yield refused(f"by-class-{id}", about, kind, f"by-class-{code}", wrong, OLD)
    lanes = Coding(ByClass(7, 118, (40, 30, 50), 2), CONTEXTS)
    for id, about, code, count in (
        ("lanes", "The first lane has five elements, and there are four.", "lanes", 5),
        ("lanes-most", "The first lane has 2^32 - 1 elements.", "lanes", 2**32 - 1),
        ("lanes-one", "The first lane has one element more.", "stream", 4),
    ):
        wrong = edited(index=put(12, "I", count), coding=lanes)
        yield refused(f"by-class-{id}", about, "Invalid", f"by-class-{code}", wrong, OLD)
    wrong = edited(
        index=put(12, "3I", 3, 2, 2**32 - 1), coding=replace(lanes, index=replace(BY_CLASS, lanes=4))
    )
    yield refused(
        "by-class-lanes-sum",
        "The sum of the counts wraps in 32 bits.",
        "Invalid",
        "by-class-lanes",
        wrong,
        OLD,
    )
    end = replace(BY_CLASS, ends=(LEAST + 1,))
    about = "The last state is not 2^31."
    wrong = edited(coding=Coding(end, CONTEXTS))
    yield refused("by-class-stream-end", about, "Invalid", "by-class-stream", wrong, OLD)
    eight = Coding(replace(BY_CLASS, lanes=8), CONTEXTS)
    short = edited(index=lambda old: old[: 12 + 28 + 60], coding=eight)
    yield refused(
        "by-class-stream-lanes", "The states of the lanes are cut.", "Invalid", "by-class-stream", short, OLD
    )
    order = edited(index=put(0, "2H", 7, 3), coding=Coding(Positions(RawIndex()), CONTEXTS))
    yield refused("index-order", "Positions of raw-index descend.", "Invalid", "index-order", order, OLD)
    bits = edited(index=put(0, "B", 0xFF), coding=Coding(Positions(Bitmap()), CONTEXTS))
    yield refused(
        "bitmap-count", "More positions in a bitmap than the entry has.", "Invalid", "bitmap-count", bits, OLD
    )


def _table(*frequencies: int) -> bytes:
    """Return a table in which each frequency has two bytes if it is 128 or more."""
    out = bytes([len(frequencies)])
    return out + b"".join(bytes([f] if f < 128 else [128 | f % 128, f >> 7]) for f in frequencies)


def _steps() -> Iterator[Case]:
    for id, about, code, value in (
        ("length-0", "A section of 1 byte.", "length", lambda old: old[:1]),
        ("length-odd", "A section of no multiple of 4 bytes.", "length", lambda old: old + b"\0"),
        ("head-4", "Four bytes, whose head is not valid.", "head", given(b"\1\0\0\1")),
        ("head-reserved", "The reserved byte is not 0.", "head", put(0, "B", 1)),
        ("head-flags", "A reserved bit of the flags.", "head", put(1, "B", 4)),
        ("head-shift-one", "A shift with one context.", "head", put(2, "2B", 7, 1)),
        ("head-shift", "As many low bits as the element has.", "head", put(2, "B", 16)),
        ("head-rows", "4096 rows.", "head", put(2, "B", 3)),
        ("head-contexts-0", "No context.", "head", put(3, "B", 0)),
        ("head-contexts-17", "17 contexts.", "head", put(3, "B", 17)),
        (
            "length-starts",
            "The starts run past the section.",
            "length",
            lambda old: patch(old, 3, "B", 4)[:8],
        ),
        (
            "length-starts-order",
            "The starts run past the section, and descend.",
            "length",
            lambda old: put(4, "2H", 121, 119)(patch(old, 3, "B", 4)[:8]),
        ),
        ("length-tables", "The section ends after the starts.", "length", lambda old: old[:8]),
        ("contexts-equal", "The starts are equal.", "contexts", put(4, "2H", 119, 119)),
        ("contexts-order", "The starts descend.", "contexts", put(4, "2H", 121, 119)),
        ("contexts-0", "The first start is 0.", "contexts", put(4, "H", 0)),
        ("contexts-rows", "The last start is the number of rows.", "contexts", put(6, "H", 256)),
        (
            "contexts-first",
            "The starts come before the tables.",
            "contexts",
            lambda old: put(4, "H", 0)(old)[:8],
        ),
        ("table-count", "A table of 137 symbols.", "table", put(8, "B", 137)),
        ("table-sum", "Frequencies of 4095.", "table", given(_head(_table(4095)))),
        ("table-sum-more", "Frequencies of 4097.", "table", given(_head(_table(4095, 2)))),
        ("table-last", "The last frequency is 0.", "table", given(_head(_table(4096, 0)))),
        ("table-empty", "A table of no symbol.", "table", given(_head(_table()))),
        (
            "table-form",
            "A frequency in two bytes that fits one.",
            "table",
            given(_head(b"\2\x81\0" + _table(4095)[1:])),
        ),
        (
            "table-above",
            "A frequency whose second byte is 33, in a table that is cut.",
            "table",
            given(b"\0\1\0\1\3\x80\x21\1"),
        ),
        ("length-table", "The section ends within a table.", "length", given(b"\0\1\0\1\2\x80\x1f\x80")),
        ("length-table-first", "It ends before a frequency.", "length", given(b"\0\1\0\1\3\x80\x1f\1")),
        (
            "length-second",
            "The section ends within the second table.",
            "length",
            given(b"\0\1\7\2\x77\0\1\x80\x20\2\x7f\x80"),
        ),
        (
            "length-missing",
            "The second table has no count.",
            "length",
            given(b"\0\1\7\2\x77\0\4\x80\x1f\x7e\1\1"),
        ),
        ("padding", "Padding after the tables is not 0.", "length", given(_head(_table(4096), 1))),
        ("stream-none", "There is no stream.", "stream", given(_head(_table(4096))[:8])),
        (
            "stream-state",
            "The first state is below 2^31.",
            "stream",
            given(_head(_table(4096), 0, LEAST - 1)),
        ),
        ("stream-state-most", "The first state is 2^63.", "stream", given(_head(_table(4096), 0, 2**63))),
        ("stream-more", "A word is left.", "stream", lambda old: old + bytes(4)),
        ("stream-words", "A word is missing.", "stream", lambda old: old[:-4]),
    ):
        kind = "Malformed" if code in ("length", "head") else "Invalid"
        yield refused(f"steps-{id}", about, kind, f"steps-{code}", edited(value=value), OLD)
    wrong = edited(coding=Coding(BY_CLASS, replace(CONTEXTS, ends=(LEAST + 1,))))
    yield refused("steps-stream-end", "The last state is not 2^31.", "Invalid", "steps-stream", wrong, OLD)
    two = replace(CONTEXTS, starts=(119,))
    about = "The second of two contexts begins at the number of rows."
    wrong = edited(value=put(4, "H", 256), coding=Coding(BY_CLASS, two))
    yield refused("steps-contexts-two", about, "Invalid", "steps-contexts", wrong, OLD)
    about = "The first state is 2^63, and all else would fit it."
    table = b"\0\1\0\1" + _table(0, 16, 4080)
    section = table + bytes(-len(table) % 4) + struct.pack("<Q", 2**63)
    draft = draft_patch(OLD, {**NEW, "a": move(WEIGHTS, [3, 7, 20, 33], [-1])}, {"a": CODING})
    draft.rows[0].value_section = section
    yield refused("steps-stream-most", about, "Invalid", "steps-stream", draft, OLD)
    four = edited(
        value=lambda old: given(_head(_table(4096)))(old)[:-8] + struct.pack("<3QI", *[LEAST] * 3, 1)
    )
    four.rows[0].value_section = patch(four.rows[0].value_section, 1, "B", 3)
    yield refused(
        "steps-stream-lanes", "The states of four lanes are missing.", "Invalid", "steps-stream", four, OLD
    )
    for dtype, width in (("uint8", 8), ("uint16", 16), ("uint32", 32)):
        old = {"w": tensor(dtype, [5, 6])}
        draft = draft_patch(old, {"w": move(old["w"], [0])}, {"w": Coding(value=PLAIN)})
        wide = PLAIN.write_section([5 + 2 ** (width - 1)], [5], 2 * width)
        draft.rows[0].value_section = wide
        about = f"A step of {width + 1} bits, of {dtype}."
        yield refused(f"steps-wide-{dtype}", about, "Invalid", "steps-stream", draft, old)


def _head(table: bytes, padding: int = 0, state: int = LEAST) -> bytes:
    """Return a section of one context, with this table, padding and state."""
    head = b"\0\1\0\1" + table
    return head + bytes([padding] * (-len(head) % 4)) + struct.pack("<Q", state)


def _steps_zstd() -> Iterator[Case]:
    coding = Coding(value=StepsZstd())
    for id, about, kind, code, value in (
        ("head", "The first byte is 2.", "Malformed", "steps-head", put(0, "B", 2)),
        ("two", "A section of two bytes.", "Malformed", "zstd-frame", lambda old: old[:2]),
        ("short", "A section of one byte.", "Malformed", "steps-head", lambda old: old[:1]),
        ("parameter", "The byte of zstd is 2.", "Malformed", "zstd-parameter", put(1, "B", 2)),
        ("frame", "The frame is cut.", "Malformed", "zstd-frame", lambda old: old[:4]),
        ("size", "The frame states a byte more.", "Invalid", "zstd-size", put(7, "B", 9)),
        ("trailing", "A byte follows the frame.", "Malformed", "zstd-trailing", lambda old: old + b"\0"),
    ):
        wrong = edited(value=value, coding=coding)
        yield refused(f"steps-zstd-{id}", about, kind, code, wrong, OLD)


# ---- states and targets ----


def _states() -> Iterator[Case]:
    draft = changed()
    other = move(OLD["a"], [0])
    number, dims, data = OLD["a"]
    for id, about, refusal, state in (
        (
            "wrong",
            "An element that the patch does not change is not that of the base.",
            BASIS,
            {**OLD, "a": other},
        ),
        ("wrong-changed", "One that it changes.", BASIS, {**OLD, "a": move(OLD["a"], [3], [7])}),
        (
            "wrong-shape",
            "The tensor has another shape of as many elements.",
            BASIS,
            {**OLD, "a": (number, (8, 5), data)},
        ),
        (
            "wrong-next",
            "The patch of another step: all weights have moved.",
            BASIS,
            {**OLD, "a": move(OLD["a"], range(40))},
        ),
        (
            "swapped",
            "Two unchanged tensors have each other's names.",
            BASIS,
            {**OLD, "b": OLD["c"], "c": OLD["b"]},
        ),
        ("rest", "An unchanged tensor is not that of the base.", BASIS, {**OLD, "c": move(OLD["c"], [1])}),
        (
            "rest-shape",
            "An unchanged tensor has another shape.",
            BASIS,
            {**OLD, "c": (1, (3, 1), OLD["c"][2])},
        ),
        (
            "rest-name",
            "An unchanged tensor has another name.",
            BASIS,
            {"d" if name == "c" else name: x for name, x in OLD.items()},
        ),
        (
            "gone-wrong",
            "A removed tensor is not that of the base.",
            BASIS,
            {**OLD, "gone": move(OLD["gone"], [0])},
        ),
        (
            "gone-shape",
            "A removed tensor has another shape.",
            BASIS,
            {**OLD, "gone": (16, (2, 2), OLD["gone"][2])},
        ),
        (
            "lacks",
            "The state lacks a changed tensor.",
            TENSORS,
            {name: OLD[name] for name in ("b", "c", "gone")},
        ),
        (
            "lacks-rest",
            "The state lacks an unchanged tensor.",
            TENSORS,
            {name: OLD[name] for name in ("a", "b", "gone")},
        ),
        ("more", "The state has one tensor more.", TENSORS, {**OLD, "d": OLD["b"]}),
        ("nothing", "The state has no tensor.", TENSORS, {}),
        ("size", "The tensor has one element more.", SHAPE, {**OLD, "a": weights("bfloat16", 41)}),
        ("size-less", "The tensor has one element less.", SHAPE, {**OLD, "a": weights("bfloat16", 39)}),
        ("type", "The tensor has another type of as many bits.", SHAPE, {**OLD, "a": (2, dims, data)}),
        ("type-wide", "The tensor has a wider type.", SHAPE, {**OLD, "a": weights("float32", 40)}),
    ):
        yield refused(f"state-{id}", about, *refusal, draft, state)
    two = {"a": WEIGHTS, "b": move(WEIGHTS, range(0, 40, 3))}
    draft = draft_patch(two, {name: move(x, [5]) for name, x in two.items()})
    swapped = {"a": two["b"], "b": two["a"]}
    yield refused("swapped", "Two changed tensors have each other's names.", *BASIS, draft, swapped)
    draft = changed()
    about = "The state is a part, and its tensor is not that of the base."
    yield refused("part-wrong", about, *BASIS, draft, {"a": other}, part=True)
    about = "The state is a part, and the removed tensor is not that of the base."
    yield refused("part-gone", about, *BASIS, draft, {"gone": OLD["b"]}, part=True)
    about = "A tensor is neither that of the base nor of the target, and the others are those of the target."
    yield refused("half-wrong", about, *BASIS, draft, {**NEW, "a": other})
    about = "The state is the target, but has a tensor more."
    yield refused("complete-more", about, *TENSORS, draft, {**NEW, "d": OLD["b"]})
    about = "The state is the target, but an unchanged tensor is not."
    yield refused("complete-rest", about, *BASIS, draft, {**NEW, "c": move(OLD["c"], [2])})
    whole = draft_patch(OLD, {**NEW, "b": OLD["a"]}, {"a": CODING})
    about = "A whole tensor replaces another one than that of the base."
    yield refused("whole-wrong", about, *BASIS, whole, {**OLD, "b": move(OLD["b"], [0])})
    about = "The state lacks the tensor that a whole one replaces."
    yield refused("whole-lacks", about, *TENSORS, whole, {name: OLD[name] for name in ("a", "c", "gone")})
    new = draft_patch(OLD, {**NEW, "new": OLD["a"]}, {"a": CODING})
    about = "The state has another tensor of the name of a new one."
    yield refused("new-present", about, *BASIS, new, {**OLD, "new": OLD["b"]})
    yield from _fused_states()
    touched = draft_patch(OLD, NEW, touched=True)
    for id, about, refusal, state in (
        (
            "changed",
            "An element that changes is not that of the base.",
            BASIS,
            {**OLD, "a": move(OLD["a"], [7], [9])},
        ),
        (
            "shape",
            "The tensor has another shape of as many elements.",
            BASIS,
            {**OLD, "a": (number, (8, 5), data)},
        ),
        ("gone", "A removed tensor is not that of the base.", BASIS, {**OLD, "gone": OLD["b"]}),
        ("type", "The tensor has another type.", SHAPE, {**OLD, "a": (2, dims, data)}),
        (
            "half",
            "One changed element is that of the target, another that of the base.",
            BASIS,
            {**OLD, "a": move(OLD["a"], [3])},
        ),
    ):
        yield refused(f"touched-{id}", about, *refusal, touched, state)
    order = draft_patch(OLD, NEW, {"a": Coding(Positions(RawIndex()))}, touched=True)
    order.rows[0].index_section = struct.pack("<4H", 3, 3, 20, 33)
    about = "Positions are decoded before the digests of a touched patch."
    yield refused(
        "touched-order", about, "Invalid", "index-order", order, {**OLD, "a": move(OLD["a"], range(40))}
    )


def _fused_states() -> Iterator[Case]:
    old = {"a": WEIGHTS, "b": weights("bfloat16", 5, salt=3)}
    new = {"a": move(old["a"], [3]), "b": move(old["b"], [4])}
    for touched in (False, True):
        draft = draft_patch(old, new, dict.fromkeys("ab", Coding()), groups=[["a", "b"]], touched=touched)
        name = "fused-touched" if touched else "fused"
        about = "One of two tensors of an entry is that of the target, the other that of the base."
        yield refused(f"{name}-half", about, *BASIS, draft, {**old, "a": new["a"]})
        about = "One is that of the target, the other neither."
        yield refused(f"{name}-wrong", about, *BASIS, draft, {"a": new["a"], "b": move(old["b"], [4], [5])})
        yield refused(f"{name}-lacks", "The state lacks one of them.", *TENSORS, draft, {"a": old["a"]})
        yield refused(f"{name}-lacks-part", "So does a part.", *TENSORS, draft, {"b": old["b"]}, part=True)
        longer = {**old, "b": weights("bfloat16", 6)}
        yield refused(f"{name}-size", "One has another size.", *SHAPE, draft, longer)
        around = {"a": weights("bfloat16", 5), "b": weights("bfloat16", 40)}
        yield refused(f"{name}-sizes", "Their sizes are exchanged.", *SHAPE, draft, around)
    about = "Two tensors of an entry have each other's names."
    old = {"a": WEIGHTS, "b": move(WEIGHTS, range(40))}
    new = {name: move(x, [3]) for name, x in old.items()}
    draft = draft_patch(old, new, {"a": CODING, "b": CODING}, groups=[["a", "b"]])
    yield refused("fused-swapped", about, *BASIS, draft, {"a": old["b"], "b": old["a"]})


def _targets() -> Iterator[Case]:
    refusal = "Invalid", "base-target"
    for id, about, draft in (
        ("partial", "The digest of the target is another one.", edited(body=put(32, "Q", 5))),
        ("zero", "The digest of the target is 0.", edited(body=put(32, "Q", 0))),
        (
            "value",
            "An element is not that of the digest.",
            edited(coding=Coding(BY_CLASS, RAW), value=put(0, "B", 1)),
        ),
        (
            "index",
            "A position is not that of the digest.",
            edited(coding=Coding(Positions(RawIndex())), index=put(0, "H", 2)),
        ),
        ("type", "Equal bits of another type than that of the digest.", _retyped()),
    ):
        yield refused(f"target-{id}", about, *refusal, draft, OLD if id != "type" else {})
    for name, coding in (("by-class", Coding(BY_CLASS)), ("rice", Coding())):
        draft = draft_patch(OLD, OLD, {"a": coding})
        draft.records[BASE] = patch(draft.records[BASE], 32, "Q", 5)
        about = f"No element changes, but the digest does; the index codec is {name}."
        yield refused(f"target-none-{name}", about, *refusal, draft, OLD)
    touched = draft_patch(OLD, NEW, {"a": Coding(value=RAW)}, touched=True)
    touched.rows[0].value_section = patch(touched.rows[0].value_section, 0, "B", 1)
    yield refused("target-touched", "An element of a touched patch is another one.", *refusal, touched, OLD)
    whole = draft_patch(OLD, {**NEW, "b": OLD["a"]}, {"a": CODING})
    whole.rows[1].value_section = patch(whole.rows[1].value_section, 9, "B", 0xEE)
    yield refused("target-whole", "A whole tensor is not that of the digest.", *refusal, whole, OLD)
    old = {"a": WEIGHTS, "b": weights("bfloat16", 5, salt=3)}
    new = {"a": move(old["a"], [3]), "b": move(old["b"], [4])}
    draft = draft_patch(old, new, dict.fromkeys("ab", Coding()), groups=[["a", "b"]])
    draft.records[BASE] = patch(draft.records[BASE], 48, "Q", 77)
    yield refused(
        "target-fused", "The digest of the second tensor of an entry is another one.", *refusal, draft, old
    )
    flags = {"w": tensor("bool", [0, 0, 1])}
    two = {"w": (flags["w"][0], (3,), b"\2\0\1")}
    for value in (RAW, Elements(Zstd()), Steps(signed=False)):
        draft = draft_patch(flags, two, {"w": Coding(value=value)})
        about = f"An element of type bool is 2, by value codec {value.id}."
        yield refused(f"bool-{value.id}", about, "Invalid", "bool-value", draft, flags)
    draft = draft_patch({}, two)
    yield refused(
        "bool-whole", "An element of a whole tensor of type bool is 2.", "Invalid", "bool-value", draft, {}
    )


def _retyped() -> PatchDraft:
    """Return a patch of a new tensor whose type is not that of the digest."""
    draft = draft_patch({}, {"w": OLD["a"]})
    draft.rows[0].dtype = 2
    return draft
