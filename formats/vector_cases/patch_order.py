"""Patches of weights with two faults (spec/patch.md): a reader reports the one that its page checks first."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from formats.reference.extension import BASE, META, NAMES
from formats.reference.writing.index.by_class import ByClass
from formats.reference.writing.index.raw_index import RawIndex
from formats.reference.writing.patch import RAW, Coding, PatchDraft, Positions, draft_patch
from formats.reference.writing.records import write_names
from formats.vector_cases.case import Case, patch
from formats.vector_cases.patches import State, move, refused, tensor

OLD: State = {
    "a": tensor("uint8", [1, 2, 3, 4, 5, 6]),
    "b": tensor("uint8", [7] * 5),
    "gone": tensor("int8", [8, 9]),
    "rest": tensor("float32", [1, 2]),
}
NEW: State = {"a": move(OLD["a"], [1, 4]), "b": move(OLD["b"], [2]), "rest": OLD["rest"]}
OTHER = {**OLD, "a": move(OLD["a"], [0])}
CODING = Coding(Positions(RawIndex()), RAW)
UNCHANGED, AFTER, REMOVED = (8, "I", 5), (32, "Q", 5), (56, "Q", 5)
"""Edits of the record: a wrong number of unchanged tensors, and wrong digests."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _container()
    yield from _keys()
    yield from _sections()


def both(*edits: tuple[int, str, int], touched: bool = False) -> PatchDraft:
    """Return the patch of this module's states with a changed record."""
    draft = draft_patch(OLD, NEW, dict.fromkeys("ab", CODING), touched=touched)
    for at, layout, number in edits:
        draft.records[BASE] = patch(draft.records[BASE], at, layout, number)
    return draft


def damaged(draft: PatchDraft) -> bytes:
    """Return a patch in whose last entry a bit is damaged."""
    data = bytearray(draft.assemble())
    data[-8] ^= 4
    return bytes(data)


def _container() -> Iterator[Case]:
    """Yield faults of the whole container."""
    whole = draft_patch({}, {"w": OLD["a"]})
    none = {"max_expansion": 0}
    about = "A limit comes before the checksums of entries."
    refusal = "LimitExceeded", "max-expansion"
    yield refused("order-expansion-checksum", about, *refusal, damaged(whole), {}, limits=none)
    whole.rows[0].index = 4
    about = "The codecs of entries come before a limit."
    yield refused("order-entries-expansion", about, "Invalid", "base-entries", whole, {}, limits=none)
    draft = both()
    draft.records[NAMES] = write_names([b"a", b"gone"])
    draft.rows[0].index = 4
    about = "Removed names come before the codecs of entries."
    yield refused("order-names-entries", about, "Invalid", "base-names", draft, OLD)
    about = "The checksums of all entries come before the digest of the first tensor."
    yield refused("order-checksum-base", about, "ChecksumMismatch", "entry-checksum", damaged(both()), OTHER)
    draft = both((0, "B", 2))
    draft.records[META] = bytes(3)
    about = "Other records come before the record base."
    yield refused("order-meta-record", about, "Malformed", "meta-record", draft, OLD)


def _keys() -> Iterator[Case]:
    """Yield faults of several tensors."""
    target, base = ("Invalid", "base-target"), ("SchemaMismatch", "base")
    for id, about, refusal, draft, state in (
        ("target-removed", "The target comes before removed tensors.", target, both(AFTER, REMOVED), OLD),
        ("target-rest", "The target comes before unchanged tensors.", target, both(AFTER, UNCHANGED), OLD),
        ("removed-rest", "Removed tensors come before unchanged ones.", base, both(REMOVED, UNCHANGED), OLD),
        (
            "target-base",
            "The target of a tensor comes before the base of the next one.",
            target,
            both(AFTER),
            {**OLD, "b": move(OLD["b"], [0])},
        ),
        (
            "base-shape",
            "The base of a tensor comes before the size of the next one.",
            base,
            both(),
            {**OTHER, "b": OLD["gone"]},
        ),
        (
            "base-tensors",
            "The base of a tensor comes before the lack of the next one.",
            base,
            both(),
            {name: x for name, x in OTHER.items() if name != "b"},
        ),
    ):
        yield refused(f"order-{id}", about, *refusal, draft, state)


def _sections() -> Iterator[Case]:
    """Yield faults of one key, and of one section."""
    draft = both(touched=True)
    draft.rows[0].index_section = struct.pack("<2H", 4, 1)
    longer = {**OLD, "a": tensor("uint8", range(7))}
    about = "The size of a tensor comes before positions, also in a touched patch."
    yield refused("order-shape-index", about, "SchemaMismatch", "base-shape", draft, longer)
    draft = both()
    draft.rows[0].index_section = struct.pack("<2H", 4, 1)
    draft.rows[0].value_section += b"\0"
    about = "Positions come before elements."
    yield refused("order-index-value", about, "Invalid", "index-order", draft, OLD)
    lanes = Coding(ByClass(0, 0, (40, 40, 40), lanes=2))
    for id, about, code, edits in (
        ("codes-lanes", "Codes come before counts.", "codes", ((9, "B", 97), (12, "I", 9))),
        ("padding-codes", "Padding comes before codes.", "length", ((9, "B", 97), (11, "B", 1))),
    ):
        draft = draft_patch(OLD, NEW, {"a": lanes})
        for edit in edits:
            draft.rows[0].index_section = patch(draft.rows[0].index_section, *edit)
        kind = "Malformed" if code == "length" else "Invalid"
        yield refused(f"order-{id}", about, kind, f"by-class-{code}", draft, OLD)
