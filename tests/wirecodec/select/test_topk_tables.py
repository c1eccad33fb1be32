"""The top k of each row of a term table, and of all rows joined, compared with formulas and sorting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests import oracles
from tests.conftest import DTYPES
from tests.wirecodec.select.vectors import FAMILIES, family, typed
from wirecodec.arrays import addresses_of, aligned, bits_of
from wirecodec.kernels.term_forms import (
    AFTER,
    FORM_NAMES,
    GRADIENT,
    HEAVY_BALL,
    IDENTITY,
    MOMENTUM,
    NESTEROV,
    PLAIN,
    RESIDUAL,
    SUM,
    SUM_NAMES,
    TOTAL,
)
from wirecodec.select import term_table
from wirecodec.select.term_table import TermTable
from wirecodec.select.topk import each

FACTORS = np.array([0.9, 0.7, 0.8])
SIZES = (1, 2, 63, 64, 65, 500, 1024, 4096, 4097, 6001, 30_000, 70_001)


@dataclass
class Case:
    """Arrays of a table: gradients, momenta and residuals, next momenta and sums."""

    form: int
    given: list[list[Any]]
    written: list[list[Any]]

    @property
    def table(self) -> TermTable:
        addresses = np.array([addresses_of(arrays) for arrays in (*self.given, *self.written)]).T.copy()
        sizes = np.array([x.size for x in self.given[0]], np.int64)
        used = [GRADIENT, *([RESIDUAL, TOTAL] if self.form >= SUM else [])]
        used += [MOMENTUM, AFTER] if self.form >= HEAVY_BALL else []
        addresses[:, [column for column in range(5) if column not in used]] = 0
        return TermTable(addresses, sizes, FACTORS, self.form, self.given[0][0].dtype)

    def expected(self, i: int) -> tuple[Any, Any]:
        """Return x and u' of a row, by the formulas of ``term_forms``."""
        g, u, v = (arrays[i] for arrays in self.given)
        keep, factor, decay = FACTORS.astype(g.dtype)
        with np.errstate(all="ignore"):
            following = keep * u + factor * g
            if self.form == NESTEROV:
                return decay * v + (keep * following + factor * g), following
            totals = {
                IDENTITY: g,
                SUM: g + v,
                PLAIN: decay * v + factor * g,
                HEAVY_BALL: decay * v + following,
            }
            return totals[self.form], following


def make_case(form: int, sizes: Any, name: str, dtype: Any, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    given = [[typed(family(name, n + 1, seed + i)[:n], dtype) for i, n in enumerate(sizes)]]
    given += [[(0.3 * rng.laplace(size=n)).round(1).astype(dtype) for n in sizes] for _ in range(2)]
    return Case(form, given, [[aligned(n, dtype) for n in sizes] for _ in range(2)])


def check_written(case: Case, i: int, where: Any, *, cleared: bool) -> None:
    """Compare x, except at the selected elements unless they were cleared, and u' of a row."""
    x, following = case.expected(i)
    after, total = case.written[0][i], case.written[1][i]
    if case.form >= HEAVY_BALL:
        assert np.array_equal(bits_of(after), bits_of(following))
    if case.form >= SUM:
        left = x.copy()
        left[where] = 0
        if not cleared:
            total[where] = 0
        assert np.array_equal(bits_of(total), bits_of(left))


def check_each(case: Case, selector: wc.selectors.TopK, guesses: Any = None) -> list[int]:
    """Select the top k of each row, compare, and return the members."""
    before = [[x.copy() for x in arrays] for arrays in case.given]
    found = selector.select_each(case.table, guesses)
    for arrays, copies in zip(case.given, before, strict=True):
        assert all(np.array_equal(bits_of(a), bits_of(b)) for a, b in zip(arrays, copies, strict=True))
    if found is None:
        return []
    for slot, i in enumerate(found.members.tolist()):
        x, _ = case.expected(i)
        where = oracles.top_k_sorted(x, selector.count(x.size))
        here = slice(found.cuts[slot], found.cuts[slot + 1])
        assert np.array_equal(found.indices[here], where)
        assert np.array_equal(bits_of(found.values[here]), bits_of(x)[where])
        check_written(case, i, where, cleared=False)
    return found.members.tolist()


def check_joint(case: Case, selector: wc.selectors.TopK) -> bool:
    """Select the top k of all rows, compare, and tell whether there was a result."""
    found = selector.select_joint(case.table)
    if found is None:
        return False
    sums = [case.expected(i)[0] for i in range(len(case.given[0]))]
    x = np.concatenate(sums)
    where = oracles.top_k_sorted(x, selector.count(x.size))
    assert np.array_equal(found.indices, where)
    assert np.array_equal(bits_of(found.values), bits_of(x)[where])
    starts = np.cumsum([0, *(each.size for each in sums)])
    for i in range(len(sums)):
        inside = where[(where >= starts[i]) & (where < starts[i + 1])] - starts[i]
        check_written(case, i, inside, cleared=True)
    return True


WHOLE = (wc.selectors.TopK(k=1), wc.selectors.TopK(k=499), wc.selectors.TopK(k=4095))
WIDE = [dtype for dtype in DTYPES if dtype.itemsize >= 4]
KERNELS = [*((IDENTITY, dtype) for dtype in DTYPES), *product(SUM_NAMES, WIDE)]
"""Form and type of each kernel."""


def is_slow(form: int, dtype: Any) -> bool:
    """Return whether a kernel of float64 is left to the sweep; each form compiles for 3 to 10 seconds."""
    return form >= PLAIN and np.dtype(dtype) == np.float64


def kernels_of(cases: Iterable[tuple[int, Any]]) -> list[Any]:
    """Return (form, type) as parameters."""
    return [pytest.param(*case, marks=[pytest.mark.sweep] if is_slow(*case) else []) for case in cases]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.sweep)])
@pytest.mark.parametrize(("form", "dtype"), kernels_of(KERNELS))
def test_each_row_of_every_form(form: int, dtype: Any, every: bool, on_threads: Any) -> None:
    """All families meet both ratios, and one number of elements; in the sweep, each."""
    on_threads(1)  # several threads divide the largest row instead
    for number, name in enumerate(FAMILIES):
        case = make_case(form, SIZES, name, dtype, 3)
        whole = WHOLE if every else [WHOLE[number % 3]]
        for selector in (wc.selectors.TopK(0.01), wc.selectors.TopK(0.2), *whole):
            guesses = np.zeros(len(SIZES), np.uint64)
            members = check_each(case, selector, guesses)
            assert check_each(case, selector, guesses) == members
            if name == "heavy tails" and selector.ratio is not None:
                assert members == [i for i, n in enumerate(SIZES) if 0 < selector.count(n) < n]


@settings(max_examples=40)
@given(
    st.lists(st.one_of(st.integers(1, 300), st.integers(1, 40_000)), min_size=1, max_size=6),
    st.sampled_from(FAMILIES),
    st.sampled_from([(form, dtype) for form, dtype in product(SUM_NAMES, WIDE) if not is_slow(form, dtype)]),
    st.floats(0.001, 0.25),
    st.integers(0, 2**32),
)
@example([1] * 5000, "heavy tails", (NESTEROV, np.float32), 0.01, 0)
@example([5000], "heavy tails", (SUM, np.float64), 0.2, 1)
def test_rows_of_any_size(
    sizes: list[int], name: str, kernel: tuple[int, Any], ratio: float, seed: int
) -> None:
    form, dtype = kernel
    case, selector = make_case(form, sizes, name, dtype, seed), wc.selectors.TopK(ratio)
    check_each(case, selector)
    if selector.takes_joint(sum(sizes)):
        check_joint(case, selector)


@pytest.mark.parametrize(("form", "dtype"), kernels_of(product(SUM_NAMES, WIDE)))
def test_joint_rows_from_threads(
    form: int, dtype: Any, on_threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts begin within rows, and the candidates' positions are relative to them."""
    settings = (
        (1, 2**30, "heavy tails"),
        (2, 2**30, "descending"),
        (3, 2**16, "spikes"),
        (1, 2**17, "spikes"),
    )
    for sizes in ((300_001,), (1, 70_000, 64, 140_001, 3, 3, 90_000)):
        for n, longest, name in settings:
            case = make_case(form, sizes, name, dtype, 5)
            on_threads(n)
            monkeypatch.setattr(term_table, "MAX_PART_SIZE", longest)
            for selector in (wc.selectors.TopK(0.001), wc.selectors.TopK(0.1)):
                assert check_joint(case, selector)


@pytest.mark.parametrize("form", SUM_NAMES)
def test_signs_of_zeros(form: int) -> None:
    """A sum of -0 stays -0, and what is selected becomes +0."""
    case = make_case(form, [5000, 9000], "mostly zeros", np.float32, 1)
    for arrays in case.given:
        for x in arrays:
            x[::2] = -0.0
    check_each(case, wc.selectors.TopK(0.1))
    case.table.add()
    for i in range(2):
        check_written(case, i, [], cleared=True)


@pytest.mark.parametrize("form", FORM_NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_with_a_nonfinite_sum_is_no_member(form: int, bad: float, on_threads: Any) -> None:
    on_threads(1)
    case = make_case(form, SIZES, "heavy tails", np.float32, 2)
    for i, place in ((5, 0), (9, 6000), (10, 77)):
        case.given[0][i][place] = bad
    for guesses in (None, np.zeros(len(SIZES), np.uint64), np.full(len(SIZES), 2**29, np.uint64)):
        members = check_each(case, wc.selectors.TopK(0.02), guesses)
        assert members == [1, 2, 3, 4, 6, 7, 8, 11]
        assert guesses is None or form == IDENTITY or not guesses[[5, 9, 10]].any()
    if form != IDENTITY:
        assert not check_joint(case, wc.selectors.TopK(0.02))
        assert not case.table.add()


@pytest.mark.parametrize(("form", "dtype"), kernels_of(product(SUM_NAMES, WIDE)))
def test_a_wrong_guess_affects_only_the_time(form: int, dtype: Any) -> None:
    case, selector = make_case(form, SIZES, "heavy tails", dtype, 4), wc.selectors.TopK(0.01)
    guesses = np.zeros(len(SIZES), np.uint64)
    members = check_each(case, selector, guesses)
    largest = np.uint64((1 << (8 * np.dtype(dtype).itemsize - 1)) - 1)
    assert (guesses[members] > 0).all()
    for wrong in (guesses // 2, guesses + guesses // 64, guesses * 0 + 1, guesses * 0 + largest):
        assert check_each(case, selector, wrong) == members


@pytest.mark.parametrize(("form", "dtype"), kernels_of(product(SUM_NAMES, WIDE)))
def test_all_sums_are_added(form: int, dtype: Any, on_threads: Any) -> None:
    for n in (1, 3):
        on_threads(n)
        case = make_case(form, (*SIZES, 200_001), "heavy tails", dtype, 6)
        assert case.table.add()
        for i in range(len(case.given[0])):
            check_written(case, i, [], cleared=True)


def test_rows_are_taken_from_threads(on_threads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(each, "MIN_ELEMENTS_PER_THREAD", 1)
    for n in (1, 2, 3):
        on_threads(n)
        each._plan_batch.cache_clear()
        for form in (IDENTITY, SUM, NESTEROV):
            case = make_case(form, [3000 + 7 * i for i in range(30)], "heavy tails", np.float32, 7)
            guesses = np.zeros(30, np.uint64)
            for _ in range(2):
                assert check_each(case, wc.selectors.TopK(0.01), guesses) == list(range(30))
    each._plan_batch.cache_clear()
