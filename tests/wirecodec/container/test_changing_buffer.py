"""Tests of buffers that change during decoding: the result belongs to one state, or is a WireError.

Each case is two containers of equal length. A profile hook replaces the first by the second at one step of
the decoder, and every step is tried. Kernels do not check bounds, so sizes of one state must never be
combined with indices of the other.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar

import numpy as np
import pytest

import wirecodec as wc
from formats.reference import Record, Row, assemble
from formats.reference.transform.coefficients import smooth_length
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_fused, write_names, write_shape
from formats.reference.writing.transform.coefficients import write_lengths
from wirecodec import registry
from wirecodec.index.rice import Rice
from wirecodec.kernels.layout import RICE_SPAN

GUARD = 128
"""Elements after every output array of ``decode_add``; they must stay 0."""

RAW, BITMAP, RICE, STRUCTURED, BORROWED = 1, 2, 3, 10, 0xFE
FLOAT32, FLOAT16, BFLOAT16, DCT = 1, 2, 3, 2 << 4 | 1


class Borrowed(wc.IndexCodec):
    """User-defined index codec whose indices are a view of the section."""

    name: ClassVar[str] = "borrowed"
    wire_id: ClassVar[int] = BORROWED

    def encode(self, indices: Any, d: int, stream: int) -> Any:
        return indices.view(np.uint8)

    @classmethod
    def decode(cls, section: Any, d: int, r: int, limits: wc.DecodeLimits) -> Any:
        return section.view("<u4")


def sparse(d: int, section: bytes, *, r: int = 2, index: int = RAW, dtype: int = FLOAT32) -> Row:
    values = np.arange(1, r + 1, dtype=np.float32 if dtype == FLOAT32 else np.float16).tobytes()
    return Row(0, 0, d, r, dtype, index, RAW, section, values)


def full(d: int, *, dtype: int = FLOAT32) -> Row:
    return Row(0, 0, d, d, dtype, RAW, RAW, b"", np.arange(1, d + 1, dtype=np.float32).tobytes())


def container(row: Row, kind: int = 0, body: bytes = b"") -> bytes:
    """Assemble one entry, and one record if a type is given."""
    return assemble([row], write_extension_block([Record(kind, int(kind in (1, 4)), body)]) if kind else b"")


def rice(first: int) -> bytes:
    """Assemble a Rice section of two spans with the given base of the second."""
    indices = np.arange(0, 2 * (RICE_SPAN + 8), 2, dtype=np.uint32)
    section = bytearray(Rice().encode(indices, 70_000, 0).tobytes())
    section[:4] = struct.pack("<I", first)
    row = sparse(70_000, bytes(section), r=indices.size, index=RICE)
    return container(row, 1, write_fused([[(0, 10_000), (1, 60_000)]]))


SMALL = b"\x05\0\x09\0"
TWO = smooth_length(7)
CASES: dict[str, tuple[bytes, bytes]] = {
    "d": (container(sparse(8, SMALL)), container(sparse(80, SMALL))),
    "r": (
        container(sparse(80, SMALL + b"\x0a\0", r=3)),
        container(sparse(80, SMALL + b"\x0a\0\x0b\0", r=4)),
    ),
    "dtype": (container(sparse(80, SMALL, dtype=FLOAT16)), container(sparse(80, SMALL, dtype=BFLOAT16))),
    "codec": (container(sparse(64, SMALL)), container(sparse(64, SMALL, index=77))),
    "fused": (
        container(sparse(20, SMALL), 1, write_fused([[(0, 2), (1, 18)]])),
        container(sparse(20, SMALL), 1, write_fused([[(0, 18), (1, 2)]])),
    ),
    "shape": (container(full(8), 3, write_shape(0, (2, 4))), container(full(8), 3, write_shape(0, (200, 4)))),
    "name": (container(full(4), 2, write_names([b"ab"])), container(full(4), 2, write_names([b"\xff\xfe"]))),
    "length": (
        container(full(TWO, dtype=DCT), 4, write_lengths([(0, 7)])),
        container(full(TWO, dtype=DCT), 4, write_lengths([(0, 2**40)])),
    ),
    "record": (container(full(4), 5, b"ab"), container(full(4), 77, b"ab")),
    "bitmap": (
        container(sparse(13, b"\x03\x00", index=BITMAP)),
        container(sparse(13, b"\x01\x80", index=BITMAP)),
    ),
    "structured bitmap": (
        container(sparse(13, b"\x02\x03\x00", index=STRUCTURED)),
        container(sparse(13, b"\x02\x01\x80", index=STRUCTURED)),
    ),
    "rice base": (rice(0), rice(2 * RICE_SPAN - 1)),
    "registered codec": (
        container(sparse(80, b"\5\0\0\0\x09\0\0\0", index=BORROWED)),
        container(sparse(80, b"\5\0\0\0\x59\0\0\0", index=BORROWED)),
    ),
}


def decode(data: Any, _: Any) -> Any:
    return copy_contents({"": wc.decode(data)})


def decode_many(data: Any, _: Any) -> Any:
    return copy_contents(wc.decode_many(data))


def copy_contents(tensors: dict[str, wc.SparseTensor]) -> Any:
    """Copy the contents of tensors; check that their indices are in range."""
    for tensor in tensors.values():
        assert tensor.indices.size == tensor.values.size
        assert not tensor.indices.size or 0 <= tensor.indices[0] <= tensor.indices[-1] < tensor.size
    return [
        (name, t.shape, t.dtype.name, t.indices.tolist(), t.values.tobytes()) for name, t in tensors.items()
    ]


def decode_add(data: Any, sizes: dict[str, int]) -> Any:
    buffers = {name: np.zeros(size + GUARD, np.float32) for name, size in sizes.items()}
    try:
        wc.decode_add(data, {name: buffer[:-GUARD] for name, buffer in buffers.items()})
    except wc.WireError:
        assert not any(buffer.any() for buffer in buffers.values())
        raise
    finally:
        assert not any(buffer[-GUARD:].any() for buffer in buffers.values())
    return [(name, buffer.tobytes()) for name, buffer in buffers.items()]


def inspect(data: Any, _: Any) -> Any:
    return wc.inspect(data)


def call_or_none(call: Callable[[Any, Any], Any], data: Any, sizes: dict[str, int]) -> Any:
    """Return the result, or None for a WireError."""
    try:
        return call(data, sizes)
    except wc.WireError:
        return None


def make_overwriting_hook(buffer: Any, new: Any, step: int) -> Callable[..., None]:
    """Make a profile hook that writes ``new`` into the buffer at a step of the decoder."""
    steps = count(1)

    def hook(frame: Any, event: str, arg: Any) -> None:
        if event.endswith("call") and next(steps) == step:
            buffer[:] = new
            sys.setprofile(None)

    return hook


PAYLOAD = {"bitmap", "structured bitmap", "rice base", "registered codec"}
CALLS = [
    (case, call)
    for case in CASES
    for call in (decode, decode_many, decode_add, inspect)
    if (call is not inspect or case not in PAYLOAD) and (call is not decode or case in ("d", "shape"))
]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("case", "call"), CALLS)
def test_a_result_is_that_of_one_state(
    case: str, call: Callable[[Any, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._index, BORROWED, Borrowed)
    states = [np.frombuffer(state, np.uint8) for state in CASES[case]]
    assert states[0].size == states[1].size
    sizes = {member: size for e in _inspect_first_valid(states).entries for member, size in e.members}
    possible = [None, *(call_or_none(call, state, sizes) for state in states)]
    buffer = np.empty_like(states[0])
    for step in count(1):
        buffer[:] = states[0]
        hook = make_overwriting_hook(buffer, states[1], step)
        sys.setprofile(hook)
        try:
            found = call_or_none(call, buffer, sizes)
        finally:
            ended = sys.getprofile() is not None
            sys.setprofile(None)
        assert found in possible, (step, found)
        if ended:  # decoding ended before the step
            break
    assert step > 20


def _inspect_first_valid(states: list[Any]) -> wc.ContainerInfo:
    """Inspect the first state with a valid header."""
    for state in states:
        try:
            return wc.inspect(state)
        except wc.WireError:
            pass
    raise AssertionError("no state has a valid header")


def test_an_array_that_shrinks_is_not_added_to() -> None:
    out = np.zeros(70_000, np.float32)

    def shrink(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_name == "decode_chunk":
            sys.setprofile(None)
            out.resize(10, refcheck=False)

    sys.setprofile(shrink)
    try:
        with pytest.raises(ValueError, match="out has 10 elements"):
            wc.decode_add(container(sparse(70_000, b"\5\0\0\0\xff\xff\0\0")), out)
    finally:
        sys.setprofile(None)
