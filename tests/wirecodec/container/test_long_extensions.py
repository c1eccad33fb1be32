"""Tests of extension blocks with very many records or rows: same error as the reference, in linear time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

import wirecodec as wc
from formats import reference
from tests.wirecodec.container.long_extensions import (
    LONG,
    LONGEST,
    RECORDS,
    ROWS,
    with_records,
    with_rows,
)


def error_code(decode: Callable[[bytes], object], data: bytes) -> str:
    """Return the code of the error, or "" if there is none."""
    try:
        decode(data)
    except (wc.WireError, reference.WireError) as error:
        return error.code
    return ""


def agree(data: bytes, codes: set[str]) -> None:
    found = error_code(wc.decode_many, data)
    assert found in codes
    assert found == error_code(reference.decode, data)


@pytest.mark.sampled
@pytest.mark.parametrize("last", RECORDS.values(), ids=RECORDS)
def test_records_out_of_order_are_reported_after_broken_ones(last: bytes) -> None:
    for more in (-1, 0, 1):
        agree(with_records(LONG, last, more), {"extension-record", "extension-order"})


@pytest.mark.parametrize("last", ROWS.values(), ids=ROWS)
def test_rows_out_of_order_are_reported_after_broken_ones(last: bytes) -> None:
    agree(with_rows(LONG, last), {"shapes-record", "shapes"})


@pytest.mark.parametrize("make", [with_records, with_rows])
@pytest.mark.parametrize("decode", [wc.decode_many, wc.inspect])
def test_a_long_block_is_rejected_in_time(
    make: Callable[[int], bytes], decode: Callable[[bytes], object]
) -> None:
    assert error_code(decode, make(LONG)) in ("extension-order", "shapes")  # also compiles the kernel
    blob = make(LONGEST)
    start = time.process_time()
    error_code(decode, blob)
    # This is three times the bound of SECURITY.md, because the machine may be loaded.
    assert time.process_time() - start < 3 * (0.05 + 5e-9 * len(blob))
