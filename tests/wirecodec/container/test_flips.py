"""Tests of every truncation and bit flip of small containers of all codecs, also with correct checksums.

With correct checksums a change reaches the codecs. The result is then another valid container or a WireError.
There are more than 250,000 cases.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import pytest

import wirecodec as wc
from formats import conformance, reference
from tests.fuzz.anatomy import split_container
from tests.fuzz.judge import agree
from tests.fuzz.mutate import mutate_container
from tests.fuzz.seeds import all_seeds, valid_seeds
from tests.golden import vectors
from wirecodec import registry

MIN_SEEDS = 60
MIN_CASES = 250_000
LIMITS = wc.DecodeLimits(max_elements=2**14, max_dense=2**18, max_work=2**15)
"""Small limits, because a bit flip can make a count very large."""

MAX_SEED_BYTES = 200

Codecs = tuple[tuple[int, ...], ...]


def codecs_of(data: bytes) -> Codecs:
    """Return the domains and types, the index codecs and the value codecs of a container's table."""
    parts = split_container(data)
    assert parts is not None
    rows = [row for row in parts.rows if row.r]
    return (
        tuple(sorted({row.dtype for row in rows})),
        tuple(sorted({row.index for row in rows if row.r < row.d})),
        tuple(sorted({row.value for row in rows})),
    )


def count_cases(vector: conformance.Vector) -> int:
    """Count the cases of a vector: truncations and bit flips, each with raw and with correct checksums."""
    return (2 + 2 * 8) * len(vector.data)


def select_seeds() -> list[conformance.Vector]:
    """Select the smallest golden vector of each combination of codecs and types, until there are enough."""
    kinds: dict[tuple[Codecs, int], conformance.Vector] = {}
    for vector in vectors():
        if (
            vector.result == "ok"
            and not vector.schema
            and not vector.limits
            and 64 <= len(vector.data) <= MAX_SEED_BYTES
        ):
            kind = codecs_of(vector.data), vector.data[6] & 1
            if kind not in kinds or len(vector.data) < len(kinds[kind].data):
                kinds[kind] = vector
    found: dict[object, conformance.Vector] = {}
    spare = []
    for (codecs, extended), vector in sorted(kinds.items(), key=lambda item: len(item[1].data)):
        of = {dtype >> 4 for dtype in codecs[0]}, codecs[1:], extended
        if str(of) in found:
            spare.append(vector)
        else:
            found[str(of)] = vector
    selected = list(found.values())
    while spare and sum(map(count_cases, selected)) < MIN_CASES:
        selected.append(spare.pop(0))
    return sorted(selected, key=lambda vector: vector.id)


SEEDS = select_seeds()


def flips(data: bytes) -> Iterator[bytes]:
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def test_the_seeds_cover_every_codec() -> None:
    shown: tuple[set[int], set[int], set[int]] = set(), set(), set()
    for vector in SEEDS:
        for these, found in zip(shown, codecs_of(vector.data), strict=True):
            these.update(found)
    assert {n >> 4 for n in shown[0]} == {0, 1, 2}
    assert {n & 15 for n in shown[0]} == {1, 2, 3, 4, 14}
    assert shown[1] == {n for n in range(1, 128) if n in registry.index_codecs()}
    assert shown[2] == {n for n in range(1, 128) if n in registry.value_codecs()}
    assert len(SEEDS) >= MIN_SEEDS
    assert sum(map(count_cases, SEEDS)) >= MIN_CASES


@pytest.mark.sampled(5)
@pytest.mark.parametrize("vector", SEEDS, ids=lambda v: v.id)
def test_every_truncation(vector: conformance.Vector) -> None:
    for length in range(len(vector.data)):
        with pytest.raises(wc.Truncated):
            wc.decode_many(vector.data[:length], limits=LIMITS)
        short = bytearray(vector.data[:length])
        if length >= 24:  # correct total_len, so that the later checks run
            short[16:24] = length.to_bytes(8, "little")
            with pytest.raises(wc.WireError):
                wc.decode_many(reference.reseal(bytes(short)), limits=LIMITS)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("vector", SEEDS, ids=lambda v: v.id)
def test_every_flipped_bit(vector: conformance.Vector) -> None:
    for data in flips(vector.data):
        try:
            wc.decode_many(data, limits=LIMITS)
        except wc.WireError:
            pass
        else:
            pytest.fail(f"a flipped bit of {vector.id} is not detected: {data.hex()}")
        with contextlib.suppress(wc.WireError):  # it may be another container
            wc.decode_many(reference.reseal(data), limits=LIMITS)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(20))
def test_library_and_reference_agree_on_mutations(seed: int) -> None:
    """Compare 10,000 mutated containers; seeds make them the same in each run."""
    rng = random.Random(seed)
    for _ in range(500):
        agree(mutate_container(rng.choice(valid_seeds()), all_seeds(), rng))
