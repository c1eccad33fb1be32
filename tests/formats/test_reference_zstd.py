"""The reference decoder and Zstandard: the caller gives a decompressor, and its output is checked."""

from __future__ import annotations

import pytest

from formats import reference, zstd
from formats.reference import Row, Tensor, WireError, assemble, decode, write

T = Tensor("w", "float32", (40,), range(40), bytes(range(160)))
BLOB = write([T], value=reference.Zstd())


def refusal(data: bytes, decompress: object) -> tuple[str, str]:
    with pytest.raises(WireError) as caught:
        decode(data, zstd=decompress)  # type: ignore[arg-type]
    return caught.value.kind, caught.value.code


def test_without_one_the_codec_is_not_supported() -> None:
    assert refusal(BLOB, None) == ("Unsupported", "value-codec")
    rows = [Row(0, 0, 40, 40, 1, 1, 7, value_section=b"\xff"), Row(1, 0, 0, 0, 1, 1, 1)]
    assert refusal(assemble(rows), None) == ("Unsupported", "value-codec")


def test_with_one_it_is() -> None:
    decompress = zstd.find_decompressor()
    assert decompress is not None
    assert decode(BLOB, zstd=decompress).tensors[0].values == T.values


def test_it_is_asked_for_what_was_checked() -> None:
    asked = []

    def stored(frame: bytes, size: int) -> bytes:
        asked.append((frame[:6], len(frame), size))
        return frame[-size:]

    assert decode(BLOB, zstd=stored).tensors[0].values == T.values
    assert asked == [(b"\x28\xb5\x2f\xfd\x20\xa0", 6 + 3 + 160, 160)]


@pytest.mark.parametrize("wrong", [b"", bytes(159), bytes(161)])
def test_what_it_gives_is_measured(wrong: bytes) -> None:
    assert refusal(BLOB, lambda frame, size: wrong) == ("Malformed", "zstd-content")


def test_what_it_raises_is_no_accident() -> None:
    def broken(frame: bytes, size: int) -> bytes:
        raise OSError("a library's own error")

    assert refusal(BLOB, broken) == ("Malformed", "zstd-content")
