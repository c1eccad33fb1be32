"""The library against the standard: golden vectors both ways, and the reference decoder on thousands of
containers.

The containers come from tests/fuzz/legal.py, which is independent of the library's encoder and also writes
legal forms that the library never writes; and from those, broken.
tests/wirecodec/container/test_flips.py does the same with changed golden vectors.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from formats import conformance
from tests.fuzz.judge import agree, library
from tests.fuzz.legal import draw_container
from tests.fuzz.mutate import mutate_container
from tests.fuzz.seeds import all_seeds
from tests.golden import RESULTS, vectors, vectors_of
from wirecodec.element_types import element_dtype_named


@pytest.mark.parametrize("result", RESULTS)
def test_golden_vectors(result: str) -> None:
    messages = {vector.id: conformance.check(library, vector) for vector in vectors_of(result)}
    assert {id: message for id, message in messages.items() if message is not None} == {}


def test_golden_vectors_are_what_the_library_writes() -> None:
    given = [vector for vector in vectors() if vector.encode is not None]
    assert len(given) >= 60
    assert [vector.id for vector in given if encode_input(vector.encode) != vector.data] == []


def encode_input(given: Any) -> bytes:
    """Encode the input of a vector."""
    tensors = {}
    for name, dtype, shape, indices, values in given.tensors:
        elements = np.frombuffer(values, element_dtype_named(dtype))
        tensors[name] = wc.SparseTensor(np.asarray(indices, np.int64), elements, tuple(shape))
    if given.many:
        blob = wc.encode_many(tensors, given.scheme, seed=given.seed, tag=given.tag)
    else:
        (tensor,) = tensors.values()
        blob = wc.encode(tensor, given.scheme, seed=given.seed, tag=given.tag)
    return blob.tobytes()


WIDE = {"max_elements": 2**13, "max_dense": 2**26, "max_work": 2**15}
"""Limits that keep the slow reference decoder below a second for mutated counts."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(20))
def test_library_and_reference_agree_on_legal_containers(part: int) -> None:
    """Compare 5,000 valid containers and as many mutated ones, most with correct checksums."""
    for seed in range(250 * part, 250 * (part + 1)):
        rng = random.Random(seed)
        data = draw_container(rng)
        assert isinstance(agree(data, {})[0], bytes), seed
        agree(mutate_container(data, all_seeds(), rng), WIDE)


def test_the_whole_pipeline_agrees_with_the_reference(gradient: Any) -> None:
    for scheme in (
        "topk(0.01) | rice | qsgd(bits=4)",
        "topk(0.003) | rice | raw(bfloat16)",
        "nonzero | rice | raw",
    ):
        x = gradient[:40_000]
        blob = wc.encode(x, scheme, seed=1)
        assert isinstance(agree(blob.tobytes(), {})[0], bytes)
