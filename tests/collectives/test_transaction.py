"""Tests of the step of a compressor in an exchange: which end it gets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import wirecodec as wc
from collectives.exchange.transaction import State, Transaction

GRADIENT = {"w": np.array([4, 1], np.float32)}


class End(NamedTuple):
    """Arguments of a transaction and of its end."""

    holds: bool
    doubts: bool
    succeeds: bool
    is_delivered: bool
    may_count: bool


ENDS = [
    # holds, doubts, succeeds, delivered, may count; state; steps that are taken
    (End(False, False, True, True, True), State.CLOSED, 1),
    (End(False, True, True, True, True), State.CLOSED, 1),
    (End(True, False, True, True, True), State.HELD, 0),
    (End(True, True, True, True, True), State.HELD, 0),
    (End(False, False, False, True, True), State.CLOSED, 1),  # the other ranks have committed theirs
    (End(True, False, False, True, True), State.CLOSED, 0),
    (End(False, True, False, True, True), State.IN_DOUBT, 0),
    (End(True, True, False, False, True), State.IN_DOUBT, 0),
    (End(False, False, False, False, True), State.CLOSED, 0),
    (End(False, True, False, False, False), State.CLOSED, 0),
]


@pytest.mark.parametrize(("given", "state", "taken"), ENDS)
def test_an_exchange_ends_its_transaction(given: End, state: State, taken: int) -> None:
    compressor = wc.Compressor("topk(k=1) | rice | raw")
    transaction = Transaction(holds=given.holds, doubts=given.doubts)
    step = compressor.prepare(GRADIENT)
    ends = given, End(given.holds, given.doubts, succeeds=False, is_delivered=False, may_count=True)
    for end in ends:  # the second one is that of an interrupt after the first
        transaction.begin(step)
        transaction.settle(succeeds=end.succeeds, is_delivered=end.is_delivered, may_count=end.may_count)
        assert (transaction.state, compressor.step) == (state, taken)
    assert step.is_open == (state is not State.CLOSED)
    assert transaction.held is (step if state is State.HELD else None)


def test_a_step_that_was_rolled_back_is_not_in_doubt() -> None:
    step = wc.Compressor("topk(k=1) | rice | raw").prepare(GRADIENT)
    transaction = Transaction(doubts=True)
    transaction.begin(step)
    step.rollback()
    transaction.settle(succeeds=False, is_delivered=True, may_count=True)
    assert transaction.state is State.CLOSED


def test_another_step_begins_again() -> None:
    compressor, transaction = wc.Compressor("topk(k=1) | rice | raw"), Transaction()
    for number in range(2):
        transaction.begin(compressor.prepare(GRADIENT))
        assert transaction.state is State.OPEN
        transaction.settle(succeeds=True, is_delivered=True, may_count=True)
        assert compressor.step == number + 1
