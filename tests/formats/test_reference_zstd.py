"""Tests of Zstandard in the reference decoder: the caller passes it, and its output is checked."""

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


def test_without_a_decompressor_the_codec_is_unsupported() -> None:
    assert refusal(BLOB, None) == ("Unsupported", "value-codec")
    rows = [Row(0, 0, 40, 40, 1, 1, 7, value_section=b"\xff"), Row(1, 0, 0, 0, 1, 1, 1)]
    assert refusal(assemble(rows), None) == ("Unsupported", "value-codec")


def test_with_a_decompressor_the_codec_is_supported() -> None:
    decompress = zstd.find_decompressor()
    assert decompress is not None
    assert decode(BLOB, zstd=decompress).tensors[0].values == T.values


def test_the_decompressor_receives_checked_arguments() -> None:
    asked = []

    def stored(frame: bytes, size: int) -> bytes:
        asked.append((frame[:6], len(frame), size))
        return frame[-size:]

    assert decode(BLOB, zstd=stored).tensors[0].values == T.values
    assert asked == [(b"\x28\xb5\x2f\xfd\x20\xa0", 6 + 3 + 160, 160)]


@pytest.mark.parametrize("wrong", [b"", bytes(159), bytes(161)])
def test_output_of_a_wrong_size_is_rejected(wrong: bytes) -> None:
    assert refusal(BLOB, lambda frame, size: wrong) == ("Malformed", "zstd-content")


def test_errors_of_the_decompressor_become_wire_errors() -> None:
    def broken(frame: bytes, size: int) -> bytes:
        raise OSError("a library's own error")

    assert refusal(BLOB, broken) == ("Malformed", "zstd-content")
