"""error-bounded: sections of every form, size and element type, foreign ones, and each check of the page."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence

from formats.reference import ErrorBounded, Tensor
from formats.reference.floats import BY_ID, BY_NAME, pack_elements
from formats.reference.value.error_bounded_model import (
    MAX_START,
    SYMBOLS,
    Lane,
    default_levels,
    frequencies,
)
from formats.reference.writing.value.error_bounded import push
from formats.vector_cases.case import (
    Case,
    bad,
    exact,
    number,
    patch,
    sparse,
    spread,
    valid,
    values_for,
    values_of,
)
from formats.vector_cases.parts import of_values

DTYPES = ("float32", "float16", "bfloat16", "float64")
HEAD = 17
"""Length of the fields before the rows."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _sizes()
    yield from _errors()
    yield from _numbers()
    yield from _foreign()
    yield from _bad_numbers()
    yield from _bad_lengths()
    yield from _bad_codes()


def _made(id: str, about: str, dtype: str, values: bytes, error: float = 0.01) -> Case:
    """Return a tensor of one dimension with every element present."""
    size = len(values) // BY_NAME[dtype].itemsize
    t = Tensor("0", dtype, (size,), range(size), values)
    return exact(f"error-bounded-{id}", about, [t], value=ErrorBounded(error))


def _of(id: str, about: str, numbers: Sequence[float], error: float = 0.01) -> Case:
    return _made(id, about, "float32", values_of(numbers, "float32"), error)


def _bits(id: str, about: str, dtype: str, bits: Sequence[int], error: float = 0.01) -> Case:
    return _made(id, about, dtype, pack_elements(list(bits), BY_NAME[dtype].itemsize), error)


def _sizes() -> Iterator[Case]:
    for dtype in DTYPES:
        t = sparse("0", 120, spread(100, 120), dtype)
        value = ErrorBounded(0.05)
        yield exact(f"error-bounded-{dtype}", f"{dtype} elements.", [t], "bitmap", value)
        t = sparse("0", 40, [7], dtype, first=4)
        about = "One value: smaller as it is."
        yield exact(f"error-bounded-{dtype}-r1", about, [t], "raw-index", value)
    for r in (2, 9, 10, 33, 300, 1023, 1024, 1027):
        numbers = [1 + abs(number(n)) for n in range(r)]
        yield _of(f"r{r}", f"{r} values, one lane or four.", numbers, 0.1)
    three = [sparse(name, 30, range(30), first=40 * n) for n, name in enumerate("abc")]
    yield exact(
        "error-bounded-keys", "Three keys, three sections.", three, value=ErrorBounded(0.1), many=True
    )
    few = [1.0 + (n % 9 == 0) for n in range(16_384 + 5)]
    yield _made("lanes", "32 lanes, five of them a value longer.", "float16", values_of(few, "float16"), 0.3)
    ones = [1.0] * (2**17 + 1)
    yield _made("blocks", "Two blocks.", "bfloat16", values_of(ones, "bfloat16"), 0.3)


def _errors() -> Iterator[Case]:
    numbers = [number(n) for n in range(200)]
    for n, error in enumerate((0.9, 0.3, 0.1, 0.01, 0.001, 1e-5, 1e-9)):
        about = f"At most {error} of the norm."
        yield _of(f"error-{n}", about, numbers, error)
    for dtype in ("float16", "bfloat16", "float64"):
        values = values_of(numbers, dtype)
        about = f"An error that {dtype} elements hardly allow."
        yield _made(f"tight-{dtype}", about, dtype, values, 2.0**-9 if dtype == "bfloat16" else 2.0**-12)


def _numbers() -> Iterator[Case]:
    tops = [math.copysign(2.0 + abs(number(n)), number(n + 7)) for n in range(250)]
    yield _of("offset", "No value near 0: cells begin at the smallest magnitude.", tops)
    mixed = [number(n) if n % 5 == 0 else number(n) / 64 for n in range(300)]
    yield _of("centred", "Most values near 0, which have no sign.", mixed, 0.1)
    yield _of("zeros", "Zeros, of either sign.", [0.0, -0.0] * 40)
    yield _of("constant", "One magnitude.", [0.1, -0.1, -0.1] * 30)
    yield _of("clusters", "Two magnitudes.", [1.0, -100.0, 100.0, -1.0] * 30)
    spike = [2.0**-20 * number(n) for n in range(250)] + [3000.0]
    yield _of("spike", "One large value among small ones.", spike)
    wild = [math.ldexp(number(n), n % 61 - 30) for n in range(250)]
    yield _of("wild", "Magnitudes far apart.", wild, 1e-4)
    spikes = [1000.0 + n if n % 90 == 40 else float(n % 7) for n in range(900)]
    about = "Cell numbers above 2^20 - 1, at which the means limit them."
    yield _of("k-beyond-2-20", about, spikes, 3e-7)
    waves = [number(n) * (1 + 2000 * (n // 40 % 2)) for n in range(300)]
    yield _of("waves", "Stretches of small and of large values: unmodelled bits, escapes.", waves, 1e-3)
    yield _bits("least", "Subnormal magnitudes: as they are.", "float32", [1, 1 << 31, 7, 9] * 20)
    for dtype in DTYPES:
        form = BY_NAME[dtype]
        most = form.infinity - 1
        pattern = [most, most | form.sign, most - 1, most - 5]
        yield _bits(f"most-{dtype}", "The largest magnitudes.", dtype, pattern * 12, 0.3)
    values = pack_elements([0x3FF0000000000000 + (n << 40) for n in range(60)], 8)
    yield _made("wide-float64", "Binary64 numbers, as binary32.", "float64", values)
    yield _bits("beyond-float64", "Beyond binary32: as they are.", "float64", [0x47F0000000000000, 1] * 30)
    yield _bits("below-float64", "Squares that vanish: as they are.", "float64", [0x1000000000000000] * 30)


def _row(dtype: int, r: int, section: bytes) -> bytes:
    return of_values(14, dtype, r, section)


def _section(r: int, dtype: str = "float32", value: ErrorBounded | None = None) -> bytes:
    """Return a valid section of form 1 or 2."""
    values = values_of([1 + abs(number(n)) for n in range(r)], dtype)
    return (value or ErrorBounded(0.1)).write_section(values, BY_NAME[dtype], 0)


def _foreign() -> Iterator[Case]:
    """Yield sections that decode to values from which no exact writer makes them."""
    about = "Values as they are, although cells are smaller."
    yield valid("error-bounded-plain", about, _row(1, 100, b"\0" + values_for(100, "float32")))
    for start in (0, 1, 30, 57):
        section = _section(90, value=ErrorBounded(0.1, start=start))
        yield valid(f"error-bounded-start-{start}", "Another start.", _row(1, 90, section))
    for id, about, step in (
        ("offset", "A given step: cells begin at the smallest magnitude.", 0.75),
        ("centred", "A given step: cells are centred at zero.", 2.0),
        ("impossible", "A given step that is too small: values as they are.", 2.0**-101),
    ):
        section = _section(90, value=ErrorBounded(step=step))
        yield valid(f"error-bounded-step-{id}", about, _row(1, 90, section))
    section = _section(90, value=ErrorBounded(0.1, refitted=tuple(range(26))))
    yield valid("error-bounded-rows-all", "All rows are given.", _row(1, 90, section))
    for id, first, step, place, dtype in (
        ("place-one", 1.0, 0.25, 1.0, 1),
        ("clamped", 3.0e38, 1.0e38, 0.5, 1),
        ("overflow", 1.0, 3.0e38, 1.0, 1),
        ("clamped-float16", 65504.0, 3000.0, 0.5, 2),
        ("clamped-bfloat16", 3.0e38, 1.0e38, 0.5, 3),
        ("clamped-float64", 3.0e38, 1.0e38, 0.5, 4),
        ("least-step", 0.0, 2.0**-126, 0.0, 1),
    ):
        section = patch(_section(90), 1, "3I", *struct.unpack("<3I", struct.pack("<3f", first, step, place)))
        yield valid(f"error-bounded-{id}", "Numbers at their ends.", _row(dtype, 90, section))
        section = patch(section, 0, "B", 2)
    yield from _large_numbers()
    head = struct.pack("<B3fI", 1, 0.0, 1.0, 0.5, 1)
    sign, k = (2048, 0), 12_345_678
    escaped = [sign, (1, k >> 12), (1, k & 4095), (4096, 0)]
    for id, row, ops in (
        ("empty", b"\0\xff", escaped),
        ("escape", b"\0\0", escaped),
        ("weak", b"\2\xfe\xfe\0", [sign, (4094, 1)]),
    ):
        states = [1 << 16]
        words: list[int] = []
        for op in ops:
            push(states, [op], words)
        coded = struct.pack(f"<BII{len(words)}H", 0, len(words), *states, *words)
        about = "A row of which no symbol, or hardly one, has a level."
        yield valid(f"error-bounded-row-{id}", about, _row(1, 1, head + row + coded))


def _large_numbers() -> Iterator[Case]:
    """Yield one value of a number above 2^24, which is rounded to binary32 before ``place`` is added."""
    lane = Lane.begin(MAX_START)
    row, shift = lane.context()
    f = frequencies(default_levels(1)[row])
    for symbol, extra in ((40, 1), (47, 2**23 - 1)):
        bits = SYMBOLS[symbol][1] + shift
        ops = [(4096 - 2048, 0), (4096 >> bits - 12, (extra >> 12) * (4096 >> bits - 12))]
        ops += [(1, extra & 4095), (f[symbol], sum(f[:symbol]))]
        states, words = [1 << 16], list[int]()
        for op in ops:
            push(states, [op], words)
        section = struct.pack("<B3f2IBI", 1, 0.0, 1.0, 0.5, 0, 0, 0, 0)[:HEAD]
        section += struct.pack(f"<BII{len(words)}H", MAX_START, len(words), *states, *words)
        k = (SYMBOLS[symbol][0] << shift) + extra
        yield valid(f"error-bounded-k-{k}", f"k is {k}, rounded to binary32 first.", _row(1, 1, section))


def _bad_numbers() -> Iterator[Case]:
    good = _section(90)
    for wrong in (3, 0x7F, 255):
        data = _row(1, 90, patch(good, 0, "B", wrong))
        yield bad(f"error-bounded-form-{wrong}", f"Form {wrong}.", "Malformed", "error-bounded-form", data)
    kind, code = "Invalid", "error-bounded-number"
    one, nan, infinity, minus = 0x3F800000, 0x7FC00000, 0x7F800000, 0x80000000
    for id, about, offset, bits, dtype in (
        ("first-nan", "Cells begin at NaN.", 1, nan, 1),
        ("first-infinite", "Cells begin at infinity.", 1, infinity, 1),
        ("first-negative", "Cells begin at -1.", 1, one | minus, 1),
        ("first-minus-zero", "Cells begin at -0.", 1, minus, 1),
        ("first-float16", "Cells begin above the largest binary16 number.", 1, 0x477FE001, 2),
        ("first-bfloat16", "Cells begin above the largest bfloat16 number.", 1, 0x7F7F0001, 3),
        ("step-zero", "A step of 0.", 5, 0, 1),
        ("step-least", "A step below 2^-126.", 5, 0x007FFFFF, 1),
        ("step-nan", "A step of NaN.", 5, nan, 1),
        ("step-infinite", "An infinite step.", 5, infinity, 1),
        ("step-negative", "A step of -1.", 5, one | minus, 1),
        ("place-above", "A place above 1.", 9, one + 1, 1),
        ("place-nan", "A place of NaN.", 9, nan, 1),
        ("place-negative", "A place of -0.", 9, minus, 1),
    ):
        section = patch(_section(90, BY_ID[dtype].name), offset, "I", bits)
        yield bad(f"error-bounded-{id}", about, kind, code, _row(dtype, 90, section))
    data = _row(1, 90, patch(patch(good, 1, "I", nan), 13, "I", 1 << 26))
    yield bad("error-bounded-number-first", "The numbers are checked before the rows.", kind, code, data)
    kind, code = "Malformed", "error-bounded-rows"
    for bit in (26, 31):
        data = _row(1, 90, patch(good, 13, "I", 1 << bit))
        yield bad(f"error-bounded-rows-{bit}", f"Bit {bit} of the mask is set.", kind, code, data)
    section = _section(90, value=ErrorBounded(0.1, refitted=(0, 25)))
    data = _row(1, 90, patch(section, HEAD, "B", 33))
    yield bad("error-bounded-rows-levels", "A row of 33 levels.", kind, code, data)
    section = _section(90, value=ErrorBounded(0.1, refitted=(25,)))
    data = _row(1, 90, patch(section, HEAD, "B", 33))
    yield bad("error-bounded-rows-levels-last", "The last row has 33 levels.", kind, code, data)
    kind, code = "Invalid", "error-bounded-value"
    for name in DTYPES:
        form = BY_NAME[name]
        for id, bits in (("infinite", form.infinity | form.sign), ("nan", form.infinity + 1)):
            section = b"\0" + pack_elements([1, bits], form.itemsize)
            about = f"An element of {name}, as it is: {id}."
            yield bad(f"error-bounded-value-{id}-{name}", about, kind, code, _row(form.id, 2, section))


def _bad_lengths() -> Iterator[Case]:
    kind, code = "Malformed", "error-bounded-length"
    for dtype in DTYPES:
        plain = b"\0" + values_for(9, dtype)
        for id, section in (("short", plain[:-1]), ("long", plain + b"\0")):
            data = _row(BY_NAME[dtype].id, 9, section)
            yield bad(f"error-bounded-plain-{id}-{dtype}", f"Elements as they are, {id}.", kind, code, data)
    section = _section(90, value=ErrorBounded(0.1, refitted=(3,)))
    row = HEAD + 2 + section[HEAD]
    for id, size in (("form", 1), ("head", HEAD - 1), ("row", HEAD + 1)):
        data = _row(1, 90, section[:size])
        yield bad(f"error-bounded-length-{id}", f"It ends after {size} bytes.", kind, code, data)
    cut = section[:HEAD] + b"\4\xff\1\2\3"
    yield bad("error-bounded-length-levels-cut", "A row of 4 levels has 3.", kind, code, _row(1, 90, cut))
    cut = section[:HEAD] + b"\x20\xff" + bytes(24 - HEAD - 2)
    yield bad(
        "error-bounded-length-levels-most",
        "A row of 32 levels has 5: the others would be beyond the container.",
        kind,
        code,
        _row(1, 90, cut),
    )
    for id, size in (("block", row + 4), ("state", row + 8), ("words", len(section) - 1)):
        data = _row(1, 90, section[:size])
        yield bad(f"error-bounded-length-{id}", f"It ends after {size} bytes.", kind, code, data)
    data = _row(1, 90, section + b"\0")
    yield bad("error-bounded-length-long", "A byte after the last block.", kind, code, data)
    data = _row(1, 90, patch(section, row + 1, "I", 2**32 - 1))
    yield bad("error-bounded-length-count", "2^32 - 1 words.", kind, code, data)


def _bad_codes() -> Iterator[Case]:
    section = _section(90)
    block = HEAD + sum(2 + used for used in _rows(section))
    for start in (58, 255):
        data = _row(1, 90, patch(section, block, "B", start))
        yield bad(f"error-bounded-start-{start}", f"Start {start}.", "Malformed", "error-bounded-start", data)
    for state in (0, 2**16 - 1):
        data = _row(1, 90, patch(section, block + 5, "I", state))
        about = f"A state of {state}."
        yield bad(f"error-bounded-state-{state}", about, "Invalid", "error-bounded-state", data)
    data = _row(1, 90, patch(patch(section, block + 5, "I", 0), block, "B", 58))
    about = "The start is checked before the states."
    yield bad("error-bounded-start-first", about, "Malformed", "error-bounded-start", data)
    kind, code = "Invalid", "error-bounded-code"
    count = int.from_bytes(section[block + 1 : block + 5], "little")
    words = section[block + 9 :]
    less = patch(section[: block + 9] + words[2:], block + 1, "I", count - 1)
    yield bad("error-bounded-code-less", "A word is missing.", kind, code, _row(1, 90, less))
    more = patch(section[: block + 9] + bytes(2) + words, block + 1, "I", count + 1)
    yield bad("error-bounded-code-more", "A word is left.", kind, code, _row(1, 90, more))
    none = patch(section[: block + 9], block + 1, "I", 0)
    yield bad("error-bounded-code-none", "No word at all.", kind, code, _row(1, 90, none))
    (state,) = struct.unpack_from("<I", section, block + 5)
    data = _row(1, 90, patch(section, block + 5, "I", state ^ 1))
    yield bad("error-bounded-code-state", "Another first state.", kind, code, data)
    one = struct.pack("<B3f2IBI", 1, 0.5, 1.0, 0.5, 0, 0, 0, 0)[:-4]
    for id, state in (("more", 2**21), ("most", 2**32 - 1)):
        about = "One value, and no word: the state at the end is not 2^16."
        data = _row(1, 1, one + struct.pack("<I", state))
        yield bad(f"error-bounded-code-state-{id}", about, kind, code, data)
    about = "All blocks are taken apart before the words of any are read."
    data = _row(1, 90, more + b"\0")
    yield bad("error-bounded-code-last", about, "Malformed", "error-bounded-length", data)


def _rows(section: bytes) -> Iterator[int]:
    """Return the number of levels of each row in a section."""
    at = HEAD
    for _ in range(int.from_bytes(section[13:17], "little").bit_count()):
        yield section[at]
        at += 2 + section[at]
