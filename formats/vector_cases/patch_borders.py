"""Patches of weights at borders: the coder, digests, chunks, records and names."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from formats.reference.element_types import CODE_NAMED, IN_RECORD, write_types
from formats.reference.extension import BASE, META, NAMES, SCHEMA, SEMANTICS, SHAPES, TAG, TYPES
from formats.reference.index.by_class import CUMULATIVE, HIGHEST_CODE, REACH, weight
from formats.reference.patch import StateTensor, digest_touched
from formats.reference.rans import LEAST
from formats.reference.table import CHUNK
from formats.reference.writing.assembly import Row
from formats.reference.writing.index.by_class import ByClass
from formats.reference.writing.index.raw_index import RawIndex, write_raw_index
from formats.reference.writing.patch import RAW, WHOLE, Coding, PatchDraft, Positions, draft_patch
from formats.reference.writing.records import write_meta, write_names, write_semantics, write_shape
from formats.reference.writing.value.steps import Steps, StepsZstd
from formats.reference.writing.value.zstd import Zstd
from formats.vector_cases.case import Case, patch
from formats.vector_cases.patches import (
    PLAIN,
    accepted,
    move,
    one,
    refused,
    tensor,
    weights,
)

A = tensor("uint8", [1, 2, 3, 4, 5, 6], (2, 3))
B = move(A, [1, 4])
CODING = Coding(Positions(RawIndex()), RAW)
ENDS = (LEAST, LEAST, LEAST, LEAST + 1)
"""States with which readers leave four lanes, of which the last is wrong."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _scale()
    yield from _streams()
    yield from _values()
    yield from _entries()
    yield from _digests()
    yield from _states()
    yield from _chunks()
    yield from _records()
    yield from _names()


def usual() -> PatchDraft:
    """Return the patch that changes two elements of the tensor ``w``."""
    return draft_patch({"w": A}, {"w": B}, {"w": CODING})


# ---- the coder ----


def _scale() -> Iterator[Case]:
    zeros = tensor("uint8", [0] * 153)
    ends = [gap + sum(range(gap + 1)) for gap in range(17)]
    about = "Changes at the first place of each segment, and of the places beyond."
    segments = Coding(ByClass(7, 0, (81, 81)), PLAIN)
    yield one("by-class-segments-all", about, zeros, move(zeros, ends, [1]), segments)
    codes = (*find_codes(REACH + BEYOND_PLACE), BEYOND_CODE)
    words = tensor("uint8", range(len(codes)))
    coding = Coding(ByClass(0, 0, codes), PLAIN)
    about = "The slot of a symbol for places beyond is C(16) exactly."
    case = one("by-class-slot-beyond", about, words, move(words, [len(codes) - 1]), coding)
    section = coding.index.write_section([len(codes) - 1], range(len(codes)), 8)
    (first,) = struct.unpack_from("<Q", section, 8 + len(codes) + -len(codes) % 4)
    if first % 2**31 != CUMULATIVE[16]:
        raise AssertionError("the first slot is not C(16)")
    yield case


BEYOND_PLACE, BEYOND_CODE = 7_805_172, 40
"""Place after 2^28, and code of the element there, for which the symbol before has the slot C(16)."""


def find_codes(total: int) -> list[int]:
    """Return codes of weights that add up to a number, a multiple of 4: the greatest first."""
    codes = []
    for code in range(HIGHEST_CODE, 0, -1):
        while (left := total - weight(code)) == 0 or left >= weight(1):
            codes.append(code)
            total = left
    return codes


def _streams() -> Iterator[Case]:
    old = {"w": weights("bfloat16", 40)}
    new = {"w": move(old["w"], [3, 7, 20, 33])}
    for id, about, lanes, ends in (
        ("lane", "The last state of the second lane is not 2^31.", 2, ENDS[2:]),
        ("unused", "The last state of a lane without elements is not 2^31.", 4, ENDS),
    ):
        wrong = draft_patch(old, new, {"w": Coding(ByClass(7, 118, (40, 30, 50), lanes, ends=ends))})
        yield refused(f"by-class-end-{id}", about, "Invalid", "by-class-stream", wrong, old)
    four = Coding(value=Steps(lanes=4, ends=ENDS))
    for id, about, indices in (
        ("lane", "The last state of the fourth lane is not 2^31.", [3, 7, 20, 33]),
        ("unused", "The last state of a lane without steps is not 2^31.", [3, 7]),
    ):
        wrong = draft_patch(old, {"w": move(old["w"], indices)}, {"w": four})
        yield refused(f"steps-end-{id}", about, "Invalid", "steps-stream", wrong, old)
    about = "The first state is 0, and all else would fit it."
    zero = struct.pack("<QI", 0, LEAST)
    bytes_4 = {"w": tensor("uint8", [1] * 4)}
    draft = draft_patch(bytes_4, {"w": move(bytes_4["w"], [0])}, {"w": Coding(ByClass(7, 0, (5, 5)), RAW)})
    draft.rows[0].index_section = draft.rows[0].index_section[:12] + zero
    yield refused("by-class-stream-state-0", about, "Invalid", "by-class-stream", draft, bytes_4)
    draft = draft_patch(bytes_4, {"w": move(bytes_4["w"], [0, 2], [1])}, {"w": Coding(value=PLAIN)})
    draft.rows[0].value_section = b"\0\0\0\1\3\0\0\x80\x20\0\0\0" + zero
    yield refused("steps-stream-state-0", about, "Invalid", "steps-stream", draft, bytes_4)


def _values() -> Iterator[Case]:
    far = [2**63 - 1, -(2**63), 2**47, -(2**31), 2**62, 1]
    for dtype, shuffled in (("uint64", False), ("float64", True)):
        x = weights(dtype, 12, salt=2)
        value = StepsZstd(dtype == "float64", Zstd(shuffle=shuffled))
        about = f"Steps of up to 64 bits in a Zstandard frame, of {dtype}."
        yield one(f"steps-zstd-{dtype}", about, x, move(x, range(0, 12, 2), far), Coding(value=value))
    draft = usual()
    draft.rows[0].value_section += b"\0"
    about = "A byte more than the elements take."
    yield refused("raw-length", about, "Malformed", "raw-length", draft, {"w": A})
    draft = draft_patch({}, {"w": A})
    draft.rows[0].value_section = draft.rows[0].value_section[:-1]
    about = "A byte less than a whole tensor takes."
    yield refused("raw-length-whole", about, "Malformed", "raw-length", draft, {})


# ---- entries and digests ----


def _entries() -> Iterator[Case]:
    refusal = "Invalid", "base-entries"
    for name, number in (
        ("delta", 5),
        ("elias-fano", 7),
        ("binned", 8),
        ("bloom", 9),
        ("structured", 10),
        ("context", 11),
    ):
        draft = usual()
        draft.rows[0].index = number
        yield refused(f"entries-{name}", f"The index codec is {name}.", *refusal, draft, {"w": A})
    draft = usual()
    draft.rows[0].value = 6
    yield refused("entries-deflate", "The value codec is deflate.", *refusal, draft, {"w": A})
    old = weights("complex64", 3)
    for number in (16, 17):
        draft = draft_patch({"w": old}, {"w": move(old, [1])}, {"w": WHOLE})
        draft.rows[0].value = number
        about = f"The value codec of a complex tensor is {number}, which carries element type 14."
        yield refused(f"entries-complex-{number}", about, *refusal, draft, {"w": old})


def _digests() -> Iterator[Case]:
    for id, about, name, other in (
        ("name-empty", "An unchanged tensor has an empty name, whose digest is 1.", "", A),
        ("dimension", "An unchanged tensor has a dimension of 2^33.", "z", (1, (2**33, 0), b"")),
    ):
        old, new = {"w": A, name: other}, {"w": B, name: other}
        draft = draft_patch(old, new, {"w": CODING})
        yield accepted(f"unchanged-{id}", about, draft, old, new)


def _states() -> Iterator[Case]:
    draft = usual()
    (before,) = struct.unpack_from("<Q", draft.records[BASE], 24)
    draft.records[BASE] = patch(draft.records[BASE], 32, "Q", before)
    draft.rows[0].value_section = b"\0"
    about = "The digests of base and target are equal: the tensor is complete, and nothing is decoded."
    yield accepted("complete-equal", about, draft, {"w": A}, {"w": A})
    draft = usual()
    draft.records[BASE] = patch(draft.records[BASE], 24, "Q", 0)
    about = "The base lacks a partial tensor, and so does the state."
    yield refused("state-lacks-partial", about, "SchemaMismatch", "base-tensors", draft, {})
    draft = draft_patch({"w": A, "gone": B}, {"w": B}, {"w": CODING})
    about = "The state is a part that lacks the removed tensor."
    yield accepted("part-removed", about, draft, {"w": A}, {"w": B}, part=True)
    turned = A[0], (3, 2), A[2]
    draft = usual()
    draft.records[SHAPES] = write_shape(0, (3, 2))
    about = "The shape of a partial tensor in the container is not used: the state has another one."
    yield accepted("shapes-other", about, draft, {"w": A}, {"w": B})
    about = "The shape in the container is that of the state, but not that of the base."
    yield refused("shapes-other-state", about, "SchemaMismatch", "base", draft, {"w": turned})


def _chunks() -> Iterator[Case]:
    """Yield a tensor of two chunks, of which two elements change. There is no target to write."""
    size, places = CHUNK + 100, (5, CHUNK + 50)
    old: StateTensor = CODE_NAMED["uint8"], (size,), b"\7" * size
    before, after = (digest_touched(old, places, words) for words in ((7, 7), (9, 3)))
    rows = [
        Row(0, 0, CHUNK, 1, IN_RECORD, 1, 1, write_raw_index([5], CHUNK), b"\x09"),
        Row(0, CHUNK, 100, 1, IN_RECORD, 1, 1, write_raw_index([50], 100), b"\3"),
    ]
    body = struct.pack("<BBHIIIQ2Q", 1, 1, 0, 0, 0, 0, 0, before, after ^ 1)
    records = {BASE: body, NAMES: write_names([b"w"]), TYPES: write_types([(0, old[0])])}
    about = "A touched patch of two chunks: the base is right, and the digest of the target is another one."
    draft = PatchDraft(rows, records)
    yield refused("touched-chunks", about, "Invalid", "base-target", draft, {"w": old})


# ---- records ----


def _records() -> Iterator[Case]:
    old, new = {"w": A}, {"w": B}
    draft = usual()
    draft.records |= {TAG: b"tag", META: write_meta([(0, b"name", b"value")])}
    draft.records |= {SEMANTICS: write_semantics([(0, 1)])}
    about = "The records tag, meta and semantics change nothing."
    yield accepted("records", about, draft, old, new)
    for id, about, kind, code, record, body in (
        ("meta", "A record of metadata is cut.", "Malformed", "meta-record", META, bytes(3)),
        ("meaning", "A meaning of absent elements is 2.", "Unsupported", "meaning", SEMANTICS, (0, 2)),
        ("schema", "There are names and a digest of a schema.", "Invalid", "schema", SCHEMA, bytes(32)),
    ):
        wrong = usual()
        wrong.records[record] = body if isinstance(body, bytes) else write_semantics([body])
        yield refused(f"records-{id}", about, kind, code, wrong, old)


def _names() -> Iterator[Case]:
    for count in (1, 10, 11):
        names = [str(n).zfill(len(str(count - 1))) for n in range(count)]
        old = {name: tensor("uint8", [n, 5]) for n, name in enumerate(names)}
        new = {name: move(x, [0]) for name, x in old.items()}
        draft = draft_patch(old, new, dict.fromkeys(names, CODING))
        del draft.records[NAMES]
        about = f"There is no record of names: those of {count} tensors are their keys."
        yield accepted(f"names-none-{count}", about, draft, old, new)
    draft.records[SCHEMA] = bytes(32)
    about = "The digest of a schema is not compared, because a state is no schema."
    yield accepted("names-none-schema", about, draft, old, new)
