"""Tests of a user's selectors in a Compressor's step: what they return, inherit and lack."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.cpu import fast


@dataclass(frozen=True)
class FirstQuarter(wc.Selector):
    """Selector that returns a view of what it selects from, and the same indices each time."""

    name: ClassVar[str] = "first-quarter"
    indices: ClassVar[Any] = np.arange(1000, dtype=np.int32)

    def select(self, x: Any, *, gradient: Any = None, state: Any = None, seed: int = 0) -> wc.Selection:
        k = x.size // 4
        return wc.Selection(self.indices[:k], values=x[:k])


@pytest.mark.parametrize("scope", ["tensor", "group"])
def test_views_that_a_selector_returns_are_sent_as_they_were(scope: str) -> None:
    compressor = wc.Compressor(wc.Scheme(FirstQuarter(), wc.codecs.RawIndex(), wc.codecs.Raw()), scope=scope)
    sent = []
    for step in range(1, 4):
        prepared = compressor.prepare({"a": np.full(8, step, "f4"), "b": np.ones(8, "f4")})
        prepared.commit()
        sent.append(prepared.sent["a"].values.tolist())
    assert sent == [[step] * (4 if scope == "group" else 2) for step in (1, 2, 3)]
    FirstQuarter.indices[:2] = 5, 6
    try:
        assert prepared.sent["a"].indices[:2].tolist() == [0, 1]
    finally:
        FirstQuarter.indices[:2] = 0, 1


def test_a_nonfinite_value_of_a_selector_in_a_group_is_reported() -> None:
    @dataclass(frozen=True)
    class Wrong(wc.Selector):
        name: ClassVar[str] = "wrong"

        def select(self, x: Any, *, gradient: Any = None, state: Any = None, seed: int = 0) -> wc.Selection:
            values = np.array([np.nan if x[-1] > 1 else 1, 1], x.dtype)
            return wc.Selection(np.arange(2, dtype=np.int32), values=values)

    model = {"a": np.ones(8, "f4"), "b": np.ones(8, "f4")}
    for way in (nullcontext(), fast.off()):
        compressor = wc.Compressor(
            wc.Scheme(Wrong(), wc.codecs.RawIndex(), wc.codecs.QSGD(bits=4)), scope="group"
        )
        compressor.compress(model)
        with way, pytest.raises(wc.EncodeError, match="tensor 'a', element 0: qsgd cannot carry nan"):
            compressor.compress(model)


def test_a_subclass_with_its_own_select_has_no_faster_forms_of_another() -> None:
    @dataclass(frozen=True)
    class Last(wc.selectors.TopK):
        name: ClassVar[str] = "last"

        def select(self, x: Any, *, gradient: Any = None, state: Any = None, seed: int = 0) -> wc.Selection:
            return wc.Selection(np.arange(x.size - self.count(x.size), x.size, dtype=np.int32))

    compressor = wc.Compressor(wc.Scheme(Last(0.001), wc.codecs.RawIndex(), wc.codecs.Raw()))
    for _ in range(3):
        prepared = compressor.prepare({name: np.arange(9000, 0, -1, dtype=np.float32) for name in "ab"})
        prepared.commit()
        assert prepared.sent["a"].indices.tolist() == list(range(8991, 9000))


def test_schemes_that_no_call_takes_together_need_no_hash() -> None:
    @dataclass
    class Unhashable:
        name: ClassVar[str] = "unhashable"

        def select(self, x: Any, *, gradient: Any = None, state: Any = None, seed: int = 0) -> wc.Selection:
            return wc.Selection(np.arange(2, dtype=np.int32))

    compressor = wc.Compressor(wc.Scheme(Unhashable(), wc.codecs.RawIndex(), wc.codecs.Raw()))
    for _ in range(3):
        assert wc.decode(compressor.compress({"w": np.ones(8, "f4")})).nnz == 2
