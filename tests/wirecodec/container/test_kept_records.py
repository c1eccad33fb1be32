"""Tests of the names and shapes that are kept between containers."""

from __future__ import annotations

import numpy as np
import pytest

import wirecodec as wc
from formats.reference import Record, Row, assemble
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_names, write_shape
from wirecodec.container import content
from wirecodec.container.content import KEPT, MAX_TOTAL

FLOAT32 = 1


def test_names_and_shapes_of_valid_containers_are_kept_within_a_bound() -> None:
    for kept in (content._NAMES, content._ROWS):
        kept.clear()
    wc.decode(wc.encode(np.ones((1,) * 31 + (9,), np.float32)))  # its row is long
    assert not content._ROWS._found
    models = [{f"{n}.{key}": np.ones((2, n + 1), np.float32) for key in range(9)} for n in range(KEPT + 2)]
    for n, model in enumerate(models):
        blob = wc.encode_many(model)
        for _ in range(2):
            out = {name: np.zeros_like(x) for name, x in model.items()}
            wc.decode_add(blob, out)
            assert len(content._NAMES._found) == len(content._ROWS._found) == min(n + 1, KEPT)
            assert {name: x.shape for name, x in wc.decode_many(blob).items()} == {
                name: x.shape for name, x in model.items()
            }
            assert all((x == 1).all() for x in out.values())
    large = [wc.encode_many({f"{n}{key:05}": np.ones(1, "f4") for key in range(6000)}) for n in range(9)]
    for blob in large:
        wc.decode_many(blob)
    assert sum(map(len, content._NAMES._found)) <= MAX_TOTAL
    assert len(content._NAMES._found) >= 5


def test_a_kept_record_is_checked_against_other_tensors() -> None:
    """A valid container is read first. Then its names and shapes describe more tensors, and larger ones."""
    names = Record(2, 0, write_names([b"a", b"b"]))
    shapes = Record(3, 0, write_shape(0, (2, 3)) + write_shape(1, (3, 2)))
    later = Record(3, 0, write_shape(1, (2, 3)) + write_shape(2, (3, 2)))

    def read(count: int, size: int, *records: Record) -> list[tuple[int, ...]]:
        rows = [Row(key, 0, size, 0, FLOAT32, 1, 1) for key in range(count)]
        found = wc.decode_many(assemble(rows, write_extension_block(list(records))))
        return [x.shape for x in found.values()]

    assert read(2, 6, names, shapes) == [(2, 3), (3, 2)]
    assert read(3, 6, later) == [(6,), (2, 3), (3, 2)]
    for count, size, records, code in (
        (3, 6, (names, shapes), "names"),
        (2, 7, (names, shapes), "shapes"),
        (2, 6, (later,), "shapes"),
    ):
        with pytest.raises(wc.Invalid) as caught:
            read(count, size, *records)
        assert caught.value.code == code


def test_a_record_that_has_changed_since_it_was_checked_is_not_kept() -> None:
    names = write_names([b"a", b"b"])
    shapes = write_shape(1, (2, 3)) + write_shape(2, (3, 2))
    for kept, sound in ((content._NAMES, names), (content._ROWS, shapes)):
        kept.clear()
        for at in range(len(sound)):
            for byte in (0, 1, 0x61, 0xFF):
                kept.keep(memoryview(sound[:at] + bytes([byte]) + sound[at + 1 :]))
            kept.keep(memoryview(sound[:at]))
        for body in kept._found:
            if kept is content._NAMES:
                content.check_names(memoryview(body), 2, kept=False)
            else:
                content.check_rows(memoryview(body))
                assert (np.diff(kept._found[body].keys) > 0).all()
        kept.clear()
