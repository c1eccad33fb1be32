"""Tests of error-bounded: the bound on hostile inputs, section sizes, and equality with the reference."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats import reference
from formats.reference.floats import BY_NAME
from formats.reference.value import error_bounded as page
from formats.reference.value import error_bounded_model as model
from formats.reference.writing.value.error_bounded import find_symbol
from tests import oracles
from tests.wirecodec.value.sections import encode_section, round_trip
from wirecodec.element_types import DTYPES
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.simd.vector import load, store
from wirecodec.kernels.cpu.value.error_bounded_coder import count_raw_bits, find_bases, find_symbols
from wirecodec.kernels.layout import BOUNDED_BLOCK, BOUNDED_ROWS
from wirecodec.limits import UNLIMITED
from wirecodec.value import error_bounded_cells, error_bounded_section

MOST = {"float32": 3.4028234e38, "float16": 65504.0, "bfloat16": 3.3895313e38, "float64": 1.797e308}


def hostile(kind: str, r: int, rng: np.random.Generator, dtype: Any) -> Any:
    """Draw values that a uniform quantiser may get wrong."""
    most = MOST[dtype.name]
    signs = rng.choice([-1.0, 1.0], r)
    kinds: dict[str, Any] = {
        "tails": lambda: rng.standard_t(1, r).clip(-6e4, 6e4),
        "spike": lambda: np.where(np.arange(r) == r // 2, 6e4, 1e-3 * rng.normal(size=r)),
        "subnormal": lambda: signs * rng.integers(0, 9, r) * np.finfo(np.float32).smallest_subnormal,
        "constant": lambda: signs * 0.1,
        "largest": lambda: signs * most * rng.choice([1.0, 1.0, 0.999], r),
        "zeros": lambda: signs * 0.0,
        "clusters": lambda: signs * rng.choice([1.0, 1.0 + 1e-3, 1000.0], r),
        "borders": lambda: signs * (1 + rng.integers(0, 50, r) * 2.0**-5),
        "tiny": lambda: signs * 1e-310,
        "ends": lambda: signs * rng.choice([0.0, 1e-30, most], r),
        "wild": lambda: signs * 10.0 ** rng.uniform(-7, 4, r),
        "waves": lambda: signs * rng.exponential(size=r) * np.where(np.arange(r) // 40 % 2, 1.0, 1e-3),
    }
    return kinds[kind]().astype(dtype)


KINDS = (
    *("tails", "spike", "subnormal", "constant", "largest", "zeros"),
    *("clusters", "borders", "tiny", "ends", "wild", "waves"),
)


@settings(max_examples=120)
@given(
    st.sampled_from(KINDS),
    st.one_of(st.integers(1, 70), st.integers(1, 3000)),
    st.integers(0, 2**32),
    st.sampled_from(DTYPES),
    st.sampled_from([0.99, 0.5, 0.1, 0.05, 0.01, 1e-3, 1e-4, 1e-6, 1e-9]),
)
def test_error_bound_holds(kind: str, r: int, seed: int, dtype: Any, error: float) -> None:
    values = hostile(kind, r, np.random.default_rng(seed), dtype)
    section = encode_section(wc.codecs.ErrorBounded(error), values)
    assert section.size <= 1 + values.nbytes
    read = wc.codecs.ErrorBounded.decode(section, r, dtype, UNLIMITED)
    assert np.isfinite(read.astype(np.float64)).all()
    assert oracles.is_within_error(values, read, error)


@settings(max_examples=150)
@given(st.sampled_from(KINDS), st.integers(1, 400), st.integers(0, 2**32), st.sampled_from(DTYPES), st.data())
def test_bytes_equal_the_reference_writer(
    kind: str, r: int, seed: int, dtype: Any, data: st.DataObject
) -> None:
    """The reference writer has its own arithmetic."""
    values = hostile(kind, r, np.random.default_rng(seed), dtype)
    error = data.draw(st.sampled_from([0.9, 0.1, 0.01, 1e-3, 1e-5]))
    written = reference.ErrorBounded(error).write_section(values.tobytes(), BY_NAME[dtype.name], 0)
    assert encode_section(wc.codecs.ErrorBounded(error), values).tobytes() == written


@settings(max_examples=60)
@given(
    st.sampled_from(KINDS),
    st.integers(1, 300),
    st.integers(0, 2**32),
    st.sampled_from(DTYPES),
    st.sampled_from([2.0**-101, 1e-4, 0.1, 1.0, 1e3, 1e39]),
)
def test_bytes_of_a_step_equal_the_reference_writer(
    kind: str, r: int, seed: int, dtype: Any, step: float
) -> None:
    values = hostile(kind, r, np.random.default_rng(seed), dtype)
    with np.errstate(over="ignore"):
        section = wc.codecs.ErrorBounded().choose_with_step(values, 0, step)[1]
    written = reference.ErrorBounded(step=step).write_section(values.tobytes(), BY_NAME[dtype.name], 0)
    assert section.tobytes() == written


@settings(max_examples=100)
@given(st.lists(st.floats(-(2.0**127), 2.0**127, width=32), min_size=1, max_size=100), st.floats(1e-6, 0.9))
@example([1.0, 100.0] * 8, 0.01)
def test_error_bound_holds_for_any_floats(numbers: list[float], error: float) -> None:
    values = np.array(numbers, np.float32)
    assert oracles.is_within_error(values, round_trip(wc.codecs.ErrorBounded(error), values), error)


def largest_laplace_values(size: int, fraction: float) -> Any:
    x = np.random.default_rng(1).laplace(size=size).astype(np.float32)
    return x[np.abs(x) >= np.quantile(np.abs(x), 1 - fraction)]


@pytest.mark.parametrize(("error", "bound", "most"), [(0.01, 4.56, 4.83), (0.05, 2.34, 2.53)])
def test_sizes_near_the_rate_distortion_bound(error: float, bound: float, most: float) -> None:
    """Sections of the top 1 % of Laplace values are within 6 % of the bound at an error of 1 %."""
    values = largest_laplace_values(10_000_000, 0.01)
    section = encode_section(wc.codecs.ErrorBounded(error), values)
    assert bound < 8 * section.size / values.size < most
    read = wc.codecs.ErrorBounded.decode(section, values.size, values.dtype, UNLIMITED)
    found = np.linalg.norm((values - read).astype(float)) / np.linalg.norm(values.astype(float))
    assert 0.99 * error < found <= error


def test_repeating_signs_take_fewer_bits(rng: np.random.Generator) -> None:
    """Repeating signs take less than half a bit per value; random signs take one bit."""
    magnitudes = (1 + rng.exponential(size=20_000)).astype(np.float32)
    mixed = magnitudes * rng.choice([-1, 1], magnitudes.size).astype(np.float32)
    runs = magnitudes * np.repeat(rng.choice([-1, 1], 500), 40).astype(np.float32)
    gain = (
        8
        * (
            encode_section(wc.codecs.ErrorBounded(0.01), mixed).size
            - encode_section(wc.codecs.ErrorBounded(0.01), runs).size
        )
        / magnitudes.size
    )
    assert 0.7 < gain < 1


def test_zeros_are_almost_free() -> None:
    values = np.zeros(100_000, np.float32)
    assert encode_section(wc.codecs.ErrorBounded(0.01), values).size < 400
    values[::1000] = 1
    assert encode_section(wc.codecs.ErrorBounded(0.01), values).size < 1000


def test_error_bound_holds_at_block_and_lane_limits(rng: np.random.Generator) -> None:
    """The sizes are near those that change the number of lanes or blocks."""
    x = rng.laplace(size=2**17 + 40).astype(np.float32)
    for r in (1023, 1024, 1027, 16_383, 16_384, 16_384 + 31, 2**17, 2**17 + 33):
        read = round_trip(wc.codecs.ErrorBounded(0.02), x[:r])
        assert oracles.is_within_error(x[: min(r, 2000)], read[:2000], 0.5)
        error = np.linalg.norm((x[:r] - read).astype(float)) / np.linalg.norm(x[:r].astype(float))
        assert 0.019 < error <= 0.02


def test_reference_decodes_a_block_in_lanes(rng: np.random.Generator) -> None:
    values = (rng.standard_t(2, 16_384 + 77) * np.where(np.arange(16_461) % 5000 < 900, 300, 1)).astype(
        np.float32
    )
    section = encode_section(wc.codecs.ErrorBounded(1e-3), values)
    read = wc.codecs.ErrorBounded.decode(section, values.size, values.dtype, UNLIMITED)
    assert page.decode_error_bounded(section.tobytes(), values.size, BY_NAME["float32"]) == read.tobytes()


def test_threads_do_not_change_bytes(rng: np.random.Generator) -> None:
    import numba

    values = rng.laplace(size=400_000).astype(np.float32)
    before = numba.get_num_threads()
    try:
        sections = []
        for count in (1, before):
            numba.set_num_threads(count)
            sections.append(encode_section(wc.codecs.ErrorBounded(0.01), values).tobytes())
    finally:
        numba.set_num_threads(before)
    assert len(set(sections)) == 1


@settings(max_examples=120)
@given(st.integers(0, 2**32), st.integers(1, 3000), st.data())
def test_corrupt_sections_decode_as_in_the_reference(seed: int, r: int, data: st.DataObject) -> None:
    """The library raises the reference's error or returns its values, without reading out of bounds."""
    rng = np.random.default_rng(seed)
    section = bytearray(
        encode_section(wc.codecs.ErrorBounded(0.01), hostile("waves", r, rng, np.dtype(np.float32)))
    )
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(1, len(section) - 1))
        section[at] = data.draw(st.integers(0, 255))
    try:
        read = wc.codecs.ErrorBounded.decode(
            np.frombuffer(bytes(section), np.uint8), r, np.dtype(np.float32), UNLIMITED
        )
        found: Any = read.tobytes()
    except wc.WireError as error:
        found = type(error).__name__, error.code
    try:
        expected: Any = page.decode_error_bounded(bytes(section), r, BY_NAME["float32"])
    except reference.WireError as error:
        expected = type(error).__name__, error.code
    assert found == expected


def test_default_levels_equal_the_spec_page() -> None:
    """The page, the library and the reference list the same levels."""
    with open("formats/spec/value/error-bounded.md", encoding="utf-8") as file:
        rows = [line.split("|") for line in file if line.startswith("| ") and line[2].isdigit()]
    rows = [[cell.strip() for cell in row[1:4]] for row in rows if len(row) == 5 and len(row[2]) > 5]
    listed = {int(number): (one, other) for number, one, other in rows if number.isdigit()}
    assert [listed[row][0] for row in range(24)] == list(error_bounded_section.OFFSET_LEVELS)
    assert [listed[row][1] for row in range(24)] == list(error_bounded_section.CENTRED_LEVELS)
    assert [listed[row][0] for row in (24, 25)] == list(error_bounded_section.SHIFTED_LEVELS)
    for form in (1, 2):
        assert error_bounded_section.default_levels(form).tolist() == model.default_levels(form)


def test_frequencies_of_a_row_sum_to_4096(rng: np.random.Generator) -> None:
    from wirecodec.kernels.cpu.value import error_bounded_section as kernels

    levels = rng.choice(np.arange(256), (200, 33)).astype(np.uint8)
    levels[rng.random(levels.shape) < 0.4] = 255
    levels[0] = 255
    levels[1] = 0
    levels[2] = 254
    table = np.empty((200, 49), np.uint32)
    kernels.fill(levels, -1, table)
    for row, op in zip(levels.tolist(), table.tolist(), strict=True):
        f = model.frequencies(row)
        assert sum(f) == 4096
        assert min(f) >= 0
        assert [n >> 12 for n in op] == f
        assert [n & 4095 for n in op if n] == [sum(f[:s]) for s in range(49) if f[s]]


@kernel
def compute_bases_and_bits(symbol: Any, shift: Any, bases: Any, bits: Any) -> None:
    for at in range(0, symbol.size, 16):
        s, h = load(symbol, at, 16), load(shift, at, 16)
        store(bases, at, find_bases(s, h))
        store(bits, at, count_raw_bits(s, h))


@kernel
def compute_symbols(token: Any, out: Any) -> None:
    for at in range(0, token.size, 16):
        store(out, at, find_symbols(load(token, at, 16)))


def test_symbols_cover_all_numbers() -> None:
    symbol, shift = np.meshgrid(np.arange(48, dtype=np.uint32), np.arange(16, dtype=np.uint32))
    bases, bits = np.empty_like(symbol), np.empty_like(symbol)
    compute_bases_and_bits(symbol.ravel(), shift.ravel(), bases.ravel(), bits.ravel())
    for s, (base, some) in enumerate(model.SYMBOLS[:48]):
        assert bases[:, s].tolist() == [base << h for h in range(16)]
        assert bits[:, s].tolist() == [some + h for h in range(16)]
    escape = np.full(16, model.ESCAPE, np.uint32)
    compute_bases_and_bits(escape, shift[:, 0].copy(), bases[0], bits[0])
    assert set(bases[0, :16]) == {0}
    assert set(bits[0, :16]) == {24}
    tokens = np.array([*range(639), 2**20], np.uint32)
    found = np.empty_like(tokens)
    compute_symbols(tokens, found)
    assert found.tolist() == [find_symbol(int(token)) for token in tokens]
    for token, number in zip(tokens.tolist(), found.tolist(), strict=True):
        assert number == model.ESCAPE if token >= 512 else model.SYMBOLS[number][0] <= token


def test_parameter_out_of_range() -> None:
    assert wc.codecs.ErrorBounded(np.float32(0.1)).error == 0.1
    for wrong in (0, 1, -0.1, 2.0, float("nan"), "0.1", True):
        with pytest.raises(wc.EncodeError, match="error-bounded: error is"):
            wc.codecs.ErrorBounded(wrong)


def test_without_an_argument_the_error_is_one_per_cent() -> None:
    x = np.random.default_rng(0).laplace(size=5000).astype(np.float32)
    assert np.array_equal(
        wc.codecs.ErrorBounded().encode(x, 0), wc.codecs.ErrorBounded(error=0.01).encode(x, 0)
    )


@pytest.mark.parametrize("step", [0.03, 0.5, 7.0])
def test_given_step(step: float, dtype: np.dtype[Any]) -> None:
    """Cells have the given width, from the least magnitude on; none of their values is far from its cell."""
    x = (2 + np.random.default_rng(1).laplace(size=4000) ** 2).astype(dtype)
    section = wc.codecs.ErrorBounded().choose_with_step(x, 0, step)[1]
    form, first, width = struct.unpack("<Bff", section[:9].tobytes())
    assert form in (1, 2)
    assert width == np.float32(step)
    decoded = wc.codecs.ErrorBounded.decode(section, x.size, dtype, wc.DecodeLimits()).astype(np.float64)
    rounding = np.abs(x.astype(np.float64)) * float(np.finfo(np.float32).eps if dtype.itemsize > 2 else 2**-8)
    low = first if form == 2 else 0
    assert np.all(np.abs(decoded - x.astype(np.float64)) <= max(step, low) * 1.0001 + rounding)


@pytest.mark.nightly
def test_error_feedback_converges(rng: np.random.Generator) -> None:
    curvature, target = 10.0 ** rng.uniform(-2, 0, 40), rng.normal(size=40)
    c = wc.Compressor("all | raw-index | error-bounded(error=0.3)")
    w = np.zeros(40)
    for _ in range(4000):
        w -= 0.3 * c.decompress(c.compress({"w": curvature * (w - target)}))["w"].values
    assert np.linalg.norm(w - target) < 1e-4 * np.linalg.norm(target)


def test_constants_equal_the_reference() -> None:
    assert (model.BLOCK, model.ROWS) == (BOUNDED_BLOCK, BOUNDED_ROWS)
    assert model.split_blocks(2**18 + 7) == [
        range(part.start, part.stop) for part in error_bounded_cells.split_blocks(2**18 + 7)
    ]


@pytest.mark.parametrize("count", [4, 5, 9])
def test_many_blocks_equal_the_reference_writer(
    count: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more than four blocks, every fourth is counted. Short blocks save the reference's time."""
    monkeypatch.setattr(error_bounded_cells, "BOUNDED_BLOCK", 3000)
    monkeypatch.setattr(model, "BLOCK", 3000)
    values = rng.laplace(size=3000 * count - 7).astype(np.float32)
    values[3000:6000] *= 40  # not counted if there are five blocks
    section = encode_section(wc.codecs.ErrorBounded(0.02), values)
    written = reference.ErrorBounded(0.02).write_section(values.tobytes(), BY_NAME["float32"], 0)
    assert section.tobytes() == written
    assert oracles.is_within_error(values, round_trip(wc.codecs.ErrorBounded(0.02), values), 0.02)
    assert (
        page.decode_error_bounded(written, values.size, BY_NAME["float32"])
        == round_trip(wc.codecs.ErrorBounded(0.02), values).tobytes()
    )


def test_blocks_whose_squares_overflow_together_stay_as_they_are() -> None:
    x = np.full(2**17 + 1, 4.8e151)
    assert np.array_equal(wc.decode(wc.encode(x, "all | raw-index | error-bounded(0.1)")).to_dense(), x)


@pytest.mark.parametrize(("form", "code"), [(1, "error-bounded-number"), (3, "error-bounded-form")])
def test_a_section_as_long_as_unchanged_elements_is_read_by_its_form(form: int, code: str) -> None:
    """The kernel for many tensors leaves it to the codec, because it is long."""
    section = bytes([form]) + bytes(2 * 2**14)
    half = BY_NAME["float16"].id
    rows = [reference.Row(key, 0, 2**14, 2**14, half, 1, 14, b"", section) for key in range(2)]
    with pytest.raises(wc.WireError) as caught:
        wc.decode_many(reference.assemble(rows))
    assert caught.value.code == code
