"""Value codecs 16 and 17, steps and steps-zstd: decoding, given the old elements (spec/patch.md)."""

from __future__ import annotations

import itertools
import struct
from bisect import bisect_right
from collections.abc import Sequence

from formats.reference.element_types import RecordType
from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import unpack_elements
from formats.reference.rans import Broken, Lanes, count_rows, has_rows, row_of
from formats.reference.value.zstd import Decompress, decode_zstd

BITS = 12
DIRECT = 16
SYMBOLS = 136
GROUP = 16


def order(v: int, width: int, signed: bool) -> int:
    """Return the place of an element in the order of the numbers; the function is its own inverse."""
    half = 2 ** (width - 1)
    return 3 * half - 1 - v if signed and v >= half else v


def apply_step(old: int, step: int, width: int, signed: bool) -> int:
    """Return the element that is a step away from an old one."""
    delta = -(step + 1) // 2 if step % 2 else step // 2
    return order((order(old, width, signed) + delta) % 2**width, width, signed)


def decode_steps(section: bytes, old: Sequence[int], width: int) -> list[int]:
    """Decode new elements.

    Args:
        section: bytes of the value section.
        old: the old words of the present elements.
        width: bits of each.

    Returns:
        the new words.

    Raises:
        WireError: Malformed or Invalid.
    """
    if len(section) < 4 or len(section) % 4:
        raise Malformed("steps-length", f"{len(section)} bytes")
    reserved, flags, shift, n = section[:4]
    fits = shift == 0 if n == 1 else 2 <= n <= 16 and has_rows(width, shift)
    if reserved or flags > 3 or not fits:
        raise Malformed("steps-head", f"flags {flags}, shift {shift}, {n} contexts")
    at = 4 + 2 * (n - 1)
    if at > len(section):
        raise Malformed("steps-length", "the starts run past the section")
    starts = [0, *struct.unpack_from(f"<{n - 1}H", section, 4)]
    ascend = all(a < b for a, b in itertools.pairwise(starts))
    if not ascend or (n > 1 and starts[-1] >= count_rows(width, shift)):
        raise Invalid("steps-contexts", "the starts do not ascend, or are beyond the rows")
    tables = []
    for _ in range(n):
        table, at = _read_table(section, at)
        tables.append([0, *itertools.accumulate(table)])
    end = at + -at % 4
    if any(section[at:end]):
        raise Malformed("steps-length", "padding is not 0")
    contexts = [bisect_right(starts, row_of(x, width, shift)) - 1 if n > 1 else 0 for x in old]
    try:
        steps = _read_steps(Lanes(section[end:], 4 if flags & 2 else 1), contexts, tables, width)
    except Broken as error:
        raise Invalid("steps-stream", str(error)) from error
    return [apply_step(x, step, width, flags % 2 == 1) for x, step in zip(old, steps, strict=True)]


def _read_table(section: bytes, at: int) -> tuple[list[int], int]:
    """Read the frequencies of a context; return them, and the offset after them."""
    if at == len(section):
        raise Malformed("steps-length", "a table is missing")
    count, at = section[at], at + 1
    if count > SYMBOLS:
        raise Invalid("steps-table", f"{count} symbols")
    table = []
    for _ in range(count):
        if at == len(section):
            raise Malformed("steps-length", "a table runs past the section")
        f, at = section[at], at + 1
        if f >= 128:
            if at == len(section):
                raise Malformed("steps-length", "a table runs past the section")
            if not 1 <= section[at] <= 32:
                raise Invalid("steps-table", "a frequency is not in its shortest form, or above 4096")
            f, at = f - 128 + 128 * section[at], at + 1
        table.append(f)
    if sum(table) != 2**BITS or table[-1] == 0:
        raise Invalid("steps-table", "the frequencies do not add up to 4096, or the last one is 0")
    return table, at


def _read_steps(stream: Lanes, contexts: list[int], tables: list[list[int]], width: int) -> list[int]:
    """Read a step for each element. Raises Broken."""
    steps = []
    for i, context in enumerate(contexts):
        lane, starts = i % len(stream.states), tables[context]
        symbol = bisect_right(starts, stream.slot(lane, BITS)) - 1
        stream.leave(lane, starts[symbol], starts[symbol + 1] - starts[symbol], BITS)
        step = symbol
        if symbol >= DIRECT:
            left, step = (symbol - 8) // 2 - 1, 2 + symbol % 2
            if left + 2 > width:
                raise Broken("a step is wider than the element")
            bits = left % GROUP or GROUP
            while left > 0:
                raw = stream.slot(lane, bits)
                stream.leave(lane, raw, 1, bits)
                step = step * 2**bits + raw
                left -= bits
                bits = GROUP
        steps.append(step)
    stream.close()
    return steps


def decode_steps_zstd(
    section: bytes, old: Sequence[int], width: int, decompress: Decompress | None
) -> list[int]:
    """Decode new elements from steps in a Zstandard frame; errors are those of both codecs."""
    if section[0] > 1 or len(section) < 2:
        raise Malformed("steps-head", f"signed is {section[0]}, in {len(section)} bytes")
    unsigned = RecordType(0, "", width // 8)
    content = decode_zstd(section[1:], len(old), unsigned, decompress)
    steps = unpack_elements(content, width // 8)
    return [apply_step(x, step, width, section[0] == 1) for x, step in zip(old, steps, strict=True)]
