"""Each vector of the list 1.0.2 detects a plausible fault: a reader or writer with that fault fails it.

A fault is a change of one line of the reference. The rules of DEFLATE streams, which zlib checks for the
reference, are left out one by one of a small inflater. The frames of Zstandard vectors are taken apart.
"""

from __future__ import annotations

import importlib
import inspect
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from formats import conformance, make_vectors
from formats.reference.floats import FLOAT32, Format, round_to_float32, to_float, to_float32_bits
from formats.reference.value.zstd import read_header
from tests.formats.inflate import BadStream, inflate
from tests.formats.test_pages import sections_of
from tests.formats.test_vectors import written_alike
from tests.golden import vectors

VECTORS = {v.id: v for v in vectors()}
LIST = (make_vectors.VECTORS / "1.0.2.sha256").read_text(encoding="utf-8")
ADDED = {line.split("/")[-1].removesuffix(".json") for line in LIST.splitlines()}

UNROUNDED = "[to_float(word, FLOAT32) for word in unpack_as_float32(values, dtype)]"
IN_BINARY64 = "__import__('struct').unpack(f'<{len(values) // dtype.itemsize}' + ' fe d'[dtype.id], values)"
QSGD, TERNGRAD = "writing.value.qsgd: write_qsgd", "writing.value.terngrad: write_terngrad"
THREE_LC = "writing.value.three_lc: write_three_lc"
OFFSET = "writing.value.offset_float: round_stochastically"
PADDING, ROWS, LOCATE = "container: split_entry", "container: read_header", "tensors: locate_tensors"

SIGN = "value.error_bounded: _decode_values"
ROUND = "transform.inverse: _round_to_element"
ROUNDED = "rfft-rounded-float16 rfft-rounded-bfloat16 dct-rounded-float16 dct-rounded-bfloat16"

Fault = tuple[str, str, str, str]
"""Function of the reference, text, faulty text, and the vectors that fail."""
WRITERS: tuple[Fault, ...] = (
    (QSGD, "round_to_float32(s * UNIT / scale)", "s * UNIT / scale", "qsgd-borders-8 qsgd-borders-5"),
    (QSGD, "int(round_to_float32(x * inv))", "int(x * inv)", "qsgd-borders-8 qsgd-borders-5 qsgd-borders-2"),
    (QSGD, UNROUNDED, IN_BINARY64, "qsgd-borders-8-float64 qsgd-borders-5-float64"),
    (TERNGRAD, "round_to_float32(UNIT / scale)", "UNIT / scale", "terngrad-borders terngrad-borders-large"),
    (
        *(TERNGRAD, "round(round_to_float32(min(abs(x), scale) * inverse))"),
        *("round(min(abs(x), scale) * inverse)", "terngrad-borders terngrad-borders-large"),
    ),
    (
        *(TERNGRAD, UNROUNDED, IN_BINARY64),
        "terngrad-borders-float64 terngrad-borders-large-float64",
    ),
    (
        *(THREE_LC, "half = round_to_float32(scale / 2)", "half = greatest * sparsity / 2"),
        "3lc-rounded-1.1 3lc-rounded-1.7 3lc-rounded-subnormal",
    ),
    (THREE_LC, "half = round_to_float32(scale / 2)", "half = scale / 2", "3lc-rounded-subnormal"),
    (
        *(THREE_LC, "greatest * sparsity)", "greatest * round_to_float32(sparsity))"),
        "3lc-rounded-1.1 3lc-rounded-1.7",
    ),
    (THREE_LC, UNROUNDED, IN_BINARY64, "3lc-rounded-1.1-float64 3lc-rounded-1.7-float64"),
    (
        *(OFFSET, "round_to_float32(65536 / to_float(form.eps, FLOAT32))"),
        *("65536 / to_float(form.eps, FLOAT32)", "offset-float-borders"),
    ),
    (
        "writing.value.offset_float: _expected_error",
        "to_float(form.decode(low), FLOAT32)\n        above = to_float(form.decode(high), FLOAT32)",
        "struct.unpack('e', struct.pack('e', to_float(form.decode(low), FLOAT32)))[0]\n"
        "        above = struct.unpack('e', struct.pack('e', to_float(form.decode(high), FLOAT32)))[0]",
        "offset-float-sample-nearest offset-float-sample-stochastic",
    ),
    (
        *(OFFSET, "round_to_float32(to_float(a, FLOAT32) * rate)", "to_float(a, FLOAT32) * rate"),
        "offset-float-borders",
    ),
)
TRUNCATED = {
    "qsgd": "qsgd-borders-8-float64 qsgd-borders-5-float64 qsgd-borders-2-float64",
    "terngrad": "terngrad-borders-float64 terngrad-borders-large-float64",
    "three_lc": "3lc-rounded-1.1-float64 3lc-rounded-1.7-float64",
    "offset_float": "offset-float-borders-float64",
}
"""Writers, and the vectors that show that float64 elements are rounded, not cut, to binary32."""
READERS: tuple[Fault, ...] = (
    (PADDING, "for start, section in sections:", "for start, section in sections[:2]:",
     "padding-map padding-map-next padding-map-first"),
    ("value.offset_float: decode_offset_float", "or reserved:", "or reserved >> 8:",
     "offset-float-parameter-reserved-low"),
    ("value.qsgd: decode_qsgd", "reserved != 0", "reserved & 0xFF", "qsgd-reserved-high"),
    ("index.bloom: read_header", "reserved != 0", "reserved & 0xFF", "bloom-reserved-high"),
    ("records: read_shapes", "reserved != 0", "reserved & 0xFF00", "shapes-record-reserved-low"),
    ("records: read_fused", "reserved != 0", "reserved & 0xFFFF", "fused-record-reserved-high"),
    ("transform.coefficients: read_lengths", "any(reserved for", "any(reserved & 0xFFFF for",
     "transform-record-reserved-high"),
    ("tensors: _locate_fused", "if entry_key <= last_group:",
     "if entry_key == last_group:\n            continue\n        if entry_key < last_group:",
     "fused-groups-equal"),
    ("index.structured: decode_structured", "m < 0 or odd", "odd",
     "structured-count-negative structured-count-negative-complement"),
    ("index.structured: _read_gaps", "_BitReader(body)", "_BitReader(body + bytes(1))",
     "structured-gaps-low-range"),
    ("index.context: decode_context", "reader.code >= 2**24", "reader.code > 2**24", "context-end-least"),
    ("index.context: decode_context", "reader.code >= 2**24", "reader.code <= 2**24", "context-end-zero"),
    (SIGN, "words.slot(lane) < chance", "words.slot(lane) <= chance", "error-bounded-sign-border"),
    ("value.error_bounded: decode_error_bounded", "reader.take(17)", "reader.take(18)[:17]",
     "error-bounded-number-17"),
    (ROUND, "dtype.infinity - 1", "dtype.infinity - 2", ROUNDED),
    (ROUND, "min(magnitude, dtype.infinity - 1)", "magnitude", ROUNDED),
    (ROUND, 'struct.pack("<d", x)', 'struct.pack("<d", x * (1 - 2.0**-10))',
     "rfft-rounded-float16 dct-rounded-float16"),
    (LOCATE, "if n != 1:", "if n == 0:", "schema-count-two schema-count-two-bare schema-count-fused"
     " schema-count-schema schema-count-shape schema-count-before-payload"),
    (LOCATE, "if n != 1:", "if n > 1:", "schema-count-none"),
    (LOCATE, "if n != 1:", "if len(entries) != 1:", "schema-count-fused"),
    (LOCATE, "schema = schema and {places[0].name: next(iter(schema.values()))}", "schema = None",
     "schema-one-shape schema-one-dtype schema-one-both"),
    (LOCATE, "_assign_names(places, names, None)", "_assign_names(places, names, {'': ((), '')})",
     "one one-schema"),
    (LOCATE, "_assign_names(places, names, None)", "_assign_names(places, None, None); places[1]",
     "one-bare"),
    (LOCATE, "n = len(by_key)\n", "n = len(by_key)\n    if single and n != 1:\n        raise SchemaMismatch("
     "'schema-count', '')\n", "schema-count-last"),
    (LOCATE, "if SHAPES in records:", "if SHAPES in records and not single:", "schema-one-shapes-first"),
    (ROWS, "schema is not None, supported", "single or schema is not None, supported", "max-expansion-one"),
    (ROWS, "schema is not None, supported", "schema is not None and not single, supported",
     "max-expansion-one-schema"),
)  # fmt: skip
STREAMS = (
    ("one distance", "deflate-own-distances-2 deflate-own-distances-4 deflate-own-deep deflate-own-far"),
    ("codes below 15 bits", "deflate-own-deep"),
    ("window per block", "deflate-own-window"),
    ("repetitions end before the last", "deflate-lengths-repeat-last deflate-lengths-repeat-border"
     " deflate-lengths-zeros-last-10 deflate-lengths-zeros-last-28"),
    ("no repetition of a literal's length", "deflate-lengths-repeat-border"),
    ("repetitions end with a code", "deflate-lengths-repeat-across deflate-lengths-zeros-across"),
    ("distances below 32768", "deflate-own-far"),
    ("distance symbols below 29", "deflate-own-far"),
    ("258 has extra bits", "deflate-own-far"),
    ("type 3 as 0", "deflate-stream-type-3-stored"),
    ("type 3 as 1", "deflate-stream-type-3-fixed"),
    ("type 3 as 2", "deflate-stream-type-3-own"),
    ("symbol", "deflate-stream-symbol-286 deflate-stream-symbol-287"),
    ("distance symbol", "deflate-stream-distance-symbol-30 deflate-stream-distance-symbol-31"),
    ("far", "deflate-stream-far-start deflate-stream-far-one deflate-stream-far-most deflate-stream-far-own"),
    ("repeat-first", "deflate-stream-repeat-first-zero"),
    ("repeat-beyond", "deflate-stream-repeat-beyond-zeros deflate-stream-repeat-beyond-one"),
    ("lengths-over", "deflate-stream-lengths-over"),
    ("lengths-short", "deflate-stream-lengths-short"),
    ("literal-over", "deflate-stream-literal-over"),
    ("distance-over", "deflate-stream-distance-over-used"),
)  # fmt: skip
"""A fault of the inflater, and the vectors that detect it.

Valid ones are refused or read wrongly, and bad ones are accepted.
"""


def break_function(monkeypatch: pytest.MonkeyPatch, place: str, text: str, fault: str) -> None:
    """Replace a text of a function of the reference."""
    name, _, function = place.partition(": ")
    module = importlib.import_module(f"formats.reference.{name}")
    source, old = inspect.getsource(module), inspect.getsource(getattr(module, function))
    assert old.count(text) == 1, (place, text)
    namespace: dict[str, Any] = dict(vars(module))
    exec(compile(source.replace(old, old.replace(text, fault)), place, "exec"), namespace)
    monkeypatch.setattr(getattr(module, function), "__code__", namespace[function].__code__)


@pytest.mark.parametrize("fault", WRITERS)
def test_a_faulty_writer_writes_other_bytes(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    *change, ids = fault
    assert all(written_alike(VECTORS[id]) for id in ids.split())
    break_function(monkeypatch, *change)
    assert [id for id in ids.split() if written_alike(VECTORS[id])] == []


@pytest.mark.parametrize(("name", "ids"), TRUNCATED.items())
def test_a_writer_that_cuts_float64_writes_other_bytes(
    monkeypatch: pytest.MonkeyPatch, name: str, ids: str
) -> None:
    def cut(values: bytes, dtype: Format) -> list[int]:
        words = [to_float32_bits(round_to_float32(x)) for (x,) in struct.iter_unpack("<d", values)]
        exact = [x for (x,) in struct.iter_unpack("<d", values)]
        return [w - (abs(to_float(w, FLOAT32)) > abs(x)) for w, x in zip(words, exact, strict=True)]

    module = importlib.import_module(f"formats.reference.writing.value.{name}")
    monkeypatch.setattr(module, "unpack_as_float32", cut)
    assert [id for id in ids.split() if written_alike(VECTORS[id])] == []


@pytest.mark.parametrize("fault", READERS)
def test_a_faulty_reader_fails(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    *change, ids = fault
    break_function(monkeypatch, *change)
    found = {id: conformance.check(conformance.reference, VECTORS[id]) for id in ids.split()}
    assert [id for id, message in found.items() if message is None] == []


def content_of(id: str) -> tuple[bytes, bytes]:
    """Return the stream of a vector, and its content; a bad vector's is what a faulty reader finds."""
    stream = sections_of(VECTORS[id].data)[0][1][1:]
    return stream, b"".join(t[4] for t in VECTORS[id].tensors) or bytes([7] * 4)


@pytest.mark.parametrize(("fault", "ids"), STREAMS)
def test_an_inflater_with_a_fault_fails(fault: str, ids: str) -> None:
    for id in ids.split():
        stream, content = content_of(id)
        if VECTORS[id].result == "ok":
            assert inflate(stream, len(content)) == content
            with pytest.raises((BadStream, AssertionError)):
                assert inflate(stream, len(content), fault) == content
        else:
            with pytest.raises(BadStream):
                inflate(stream, len(content))
            assert len(inflate(stream, len(content), fault)) == len(content), id


def test_the_inflater_reads_all_valid_streams() -> None:
    for id, vector in VECTORS.items():
        if (
            vector.result == "ok"
            and id.startswith("deflate-")
            and "planes" not in id
            and len(vector.data) < 3000
        ):
            stream, content = content_of(id)
            if sections_of(vector.data)[0][1][0] == 0 and id != "deflate-last-bits":
                assert inflate(stream, len(content)) == content, id


def parts_of(frame: bytes) -> Iterator[tuple[str, int]]:
    """Yield the parts of a Zstandard frame that a decompressor must know, as (what, which)."""
    at = header_end(frame)
    while True:
        header = int.from_bytes(frame[at : at + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        yield "block", kind
        if kind == 2:
            yield from parts_of_block(frame[at + 3 : at + 3 + size])
        at += 3 + (1 if kind == 1 else size)
        if last:
            return


def header_end(frame: bytes) -> int:
    """Return the offset of a frame's first block."""
    width = (1, 2, 4, 8)[frame[4] >> 6]
    at = 5 if frame[4] & 0x20 else 6
    stated = int.from_bytes(frame[at : at + width], "little") + (256 if width == 2 else 0)
    return read_header(frame, stated)[0]


def parts_of_block(block: bytes) -> Iterator[tuple[str, int]]:
    """Yield the parts of a compressed block: literals, streams, width of sizes, tree, counts and modes."""
    kind, form = block[0] & 3, block[0] >> 2 & 3
    if kind < 2:
        head = (1, 2, 1, 3)[form]
        stated = int.from_bytes(block[:head], "little") >> (4 if form & 1 else 3)
        stop = head + (stated if kind == 0 else 1)
    else:
        head, width = ((3, 10), (3, 10), (4, 14), (5, 18))[form]
        stop = head + (int.from_bytes(block[:head], "little") >> (4 + width))
        yield "streams of literals", 4 if form else 1
        if kind == 2:
            yield "weights that are coded", int(block[head] < 128)
    yield "literals", kind
    yield f"width of sizes of literals {kind}", form
    count = block[stop]
    yield "bytes of the number of sequences", 0 if count == 0 else 1 if count < 128 else 2
    if count:
        modes = block[stop + (1 if count < 128 else 2)]
        for what, shift in (("lengths of literals", 6), ("offsets", 4), ("lengths of copies", 2)):
            yield what, modes >> shift & 3


def test_zstandard_vectors_show_every_part() -> None:
    shown = set()
    for id, vector in VECTORS.items():
        if vector.result == "ok" and id.startswith("zstd-"):
            shown |= set(parts_of(sections_of(vector.data)[0][1][1:]))
    wanted = {("block", kind) for kind in range(3)} | {("literals", kind) for kind in range(4)}
    wanted |= {(what, mode) for what in ("offsets", "lengths of copies") for mode in range(4)}
    wanted |= {("lengths of literals", mode) for mode in range(4)}
    wanted |= {("streams of literals", n) for n in (1, 4)} | {("weights that are coded", n) for n in (0, 1)}
    wanted |= {("bytes of the number of sequences", n) for n in range(3)}
    wanted |= {("width of sizes of literals 2", form) for form in range(4)}
    assert wanted - shown == set()


def test_every_added_vector_is_accounted_for() -> None:
    named = {id for *_, ids in (*WRITERS, *TRUNCATED.items(), *READERS, *STREAMS) for id in ids.split()}
    assert named <= ADDED
    assert {id for id in ADDED - named if not id.startswith("zstd-")} == set()
