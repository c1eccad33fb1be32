"""Patches of weights: the library as their reader, mutations of their vectors, and what must hold of any.

A case is a ``formats.patches.Patch``: a mutated container, a state, and the target if it must not be another.
"""

from __future__ import annotations

import json
import random
import time
import tracemalloc
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import wirecodec as wc
from formats import patches, reference
from formats.patches import Apply, Patch, State
from tests.fuzz.anatomy import count_declared, split_container
from tests.fuzz.judge import SMALL, Finding
from tests.fuzz.mutate import mutate_container
from tests.fuzz.promise import NOISE, allowed_bytes_of_patch, allowed_seconds_of_patch
from wirecodec.element_types import ELEMENT_DTYPES, name_of

DTYPES = {name_of(dtype): dtype for dtype in ELEMENT_DTYPES}

Arrays = dict[str, np.ndarray[Any, Any]]


def to_arrays(state: State) -> Arrays:
    """Return a state as arrays that can be written."""
    return {
        name: np.frombuffer(bytearray(data), DTYPES[dtype]).reshape(shape)
        for name, (dtype, shape, data) in state.items()
    }


def from_arrays(arrays: Arrays) -> State:
    """Return arrays as a state."""
    return {name: (name_of(x.dtype), x.shape, x.tobytes()) for name, x in arrays.items()}


def library(data: bytes, state: State, limits: dict[str, int], part: bool) -> State:
    """Apply with the library, as formats/vectors/README.md requires of a reader of patches.

    Raises:
        AssertionError: the patch is refused, and the state has changed.
        WireError: the patch is refused.
    """
    arrays = to_arrays(state)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the state was half-written")
            wc.apply(data, arrays, partial=part, limits=wc.DecodeLimits(**limits))
    except wc.WireError:
        if from_arrays(arrays) != state:
            raise AssertionError("a refused patch has changed the state") from None
        raise
    return from_arrays(arrays)


HALF_WRITTEN = {"patch-half-written", "patch-complete-undecoded"}
"""Golden patches whose state has the target's bits in some tensors, and the base's in others."""


def tells_rightly(patch: Patch) -> bool:
    """Tell whether the library warns of half-written states, at the line of the caller, and of no others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wc.apply(
            patch.data, to_arrays(patch.state), partial=patch.part, limits=wc.DecodeLimits(**patch.limits)
        )
    is_here = all(warning.filename == __file__ for warning in caught)
    return is_here and bool(caught) == (patch.id in HALF_WRITTEN)


@cache
def corpus() -> tuple[Patch, ...]:
    """Return the golden patches; a mutation of a bad one may reach later checks."""
    return tuple(patches.load_patches())


@cache
def large_corpus() -> tuple[Patch, ...]:
    """Return patches of larger states, which are not compared with the reference."""
    rng, found = np.random.default_rng(0), []
    for dtype, share in (("u1", 0.9), ("u2", 0.01), ("f4", 0.3)):
        old: Arrays = {name: rng.integers(0, 250, 2**16).astype(dtype) for name in "ab"}
        new = {name: np.where(rng.random(x.size) < share, x + x.dtype.type(1), x) for name, x in old.items()}
        new["c"] = np.zeros(2**16, dtype)
        for base in ("read", "unread"):
            data = wc.diff(old, new, base=base).tobytes()
            about = f"{dtype}, {share}, {base}."
            made = from_arrays(new)
            found.append(Patch("large", about, data, {}, from_arrays(old), False, made, "ok", None))
    return tuple(found)


LARGE = 0.01
"""Share of mutations of larger patches."""


def draw_patch(rng: random.Random) -> Patch:
    """Mutate a patch; its state is that of the vector.

    The target stays if no record was changed: their digests and names then exclude any other. They do not
    if the state is a part.
    """
    origin = rng.choice(large_corpus() if rng.random() < LARGE else corpus())
    data = mutate_container(origin.data, [patch.data for patch in corpus()], rng)
    before, after = split_container(origin.data), split_container(data)
    is_same = before is not None and after is not None and before.records == after.records
    is_same &= not origin.part
    return replace(origin, data=data, target=origin.target if is_same else None)


COMPARED = 2**16
"""Bytes of a state up to which the slow reference is asked, too, and limits are small."""


def judge_patch(case: Patch, *, compared: bool = True, slower: float = 1.0) -> str:
    """Check all properties of one case; return "ok" or the error's code.

    Args:
        case: any bytes, with a state.
        compared: whether the result is compared with that of the reference.
        slower: factor on the allowed time, for instrumented code.

    Raises:
        Finding: a property is violated.
    """
    is_large = _size_of(case.state) > COMPARED
    limits = {} if is_large else SMALL
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = outcome(library, case, limits)
        _read_without_base(case.data)
        _measure(case, slower)
    theirs = outcome(patches.reference, case, limits) if compared and not is_large else found
    if theirs not in (found, ("Malformed", "trailing")):  # the library reads a sequence
        raise Finding(f"library and reference differ: {str(found)[:300]} / {str(theirs)[:300]}")
    if isinstance(found, dict):
        if case.target is not None and found != case.target:
            raise Finding("an accepted patch does not make the target of its digests")
        if outcome(library, replace(case, state=found), limits) != found:
            raise Finding("a patch cannot be applied to its target")
        return "ok"
    return str(found[1])


def outcome(apply: Apply, case: Patch, limits: dict[str, int]) -> Any:
    """Return the target or (error class, code) of a reader; raise a Finding for any other exception."""
    try:
        return apply(case.data, dict(case.state), limits, case.part)
    except (wc.WireError, reference.WireError) as error:
        return type(error).__name__, error.code
    except Exception as error:
        raise Finding(f"{apply.__module__}: {error!r}") from error


def _read_without_base(data: bytes) -> None:
    """Check that ``inspect`` and ``decode_many`` raise WireErrors alone, and that no patch is decoded."""
    info = None
    try:
        info = wc.inspect(data)
        wc.decode_many(data, limits=wc.DecodeLimits(**SMALL))
    except wc.WireError:
        return
    except Exception as error:
        raise Finding(f"{'inspect' if info is None else 'decode_many'}: {error!r}") from error
    if info.patch is not None:
        raise Finding("a patch is decoded without a base")


def _size_of(state: State) -> int:
    return sum(len(data) for _, _, data in state.values())


def _measure(case: Patch, slower: float) -> None:
    """Check the CPU time and the memory of an application with the default limits."""
    size = _size_of(case.state)
    stored = count_declared(case.data)[1]
    seconds = NOISE * slower * allowed_seconds_of_patch(case.data, size + stored, len(case.state))
    if _timed(case) > seconds and (took := min(_timed(case) for _ in range(4))) > seconds:
        raise Finding(f"{1000 * took:.0f} ms for {len(case.data)} bytes, {size} of the state")
    tracemalloc.start()
    try:
        _apply_quietly(case)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if peak > (allowed := allowed_bytes_of_patch(case.data, size + stored, len(case.state))):
        raise Finding(f"{peak} bytes of memory; {allowed} are allowed")


def _timed(case: Patch) -> float:
    start = time.process_time()
    _apply_quietly(case)
    return time.process_time() - start


def _apply_quietly(case: Patch) -> None:
    try:
        library(case.data, case.state, {}, case.part)
    except wc.WireError:
        pass
    except Exception as error:
        raise Finding(f"apply: {error!r}") from error


def write_case(case: Patch) -> bytes:
    """Return a case as a file, in the form of the vectors."""
    fields: dict[str, Any] = {"id": case.id, "about": case.about, "result": case.result, "code": case.code}
    fields |= {"part": case.part, "hex": case.data.hex(), "state": patches.write_state(case.state)}
    target = {} if case.target is None else {"target": patches.write_state(case.target)}
    return json.dumps(fields | target).encode()


def read_case(data: bytes) -> Patch:
    """Return the case of a file."""
    return patches.parse_patch(json.loads(data))
