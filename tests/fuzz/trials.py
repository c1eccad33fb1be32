"""What must notice a mutant of a Python decoder: vectors, streams and probes, and whether one does."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType
from typing import Any

from formats import conformance, reference
from formats.indexes import Closed, check_index, load_indexes
from formats.indexes import reference as read_index
from formats.patches import Apply, Patch, check_patch, load_patches
from formats.streams import CONTAINERS, UNITS, Split, Stream, check_stream, load_streams, reference_of
from formats.zstd import find_decompressor
from tests.fuzz.judge import library
from tests.fuzz.mutant_pages import Verdict
from tests.fuzz.mutation import LIBRARY, Edit, Mutant, Place, Target, compile_mutant, place_of
from tests.fuzz.patches import tells_rightly
from tests.fuzz.probes import PROBES
from tests.fuzz.ways import Ways, bounded, splits_of
from tests.golden import vectors
from wirecodec.container.content import KeptRecords

SECONDS = 20
"""CPU seconds that the trials of one mutant may take, beyond three times what they take without a change.
Wall time would count a slow machine as a detection."""

Trial = Callable[[], bool]
"""A check that returns whether a result is the expected one."""


@dataclass(frozen=True)
class Known:
    """A trial, the functions of the decoder that it executes, its vector's outcome, and its CPU seconds."""

    trial: Trial
    ran: frozenset[Place]
    outcome: tuple[Any, ...]
    seconds: float
    is_probe: bool

    @property
    def kind(self) -> Any:
        """Trials of one kind rarely differ in what they detect."""
        return self.ran, self.outcome


Shown = conformance.Vector | Stream | Closed | Patch
"""What a trial may show."""


def list_trials(target: Target = LIBRARY, *, probes: bool = False) -> Iterator[tuple[Trial, Shown | None]]:
    """Yield the vectors and streams and, for the library, all ways of reading them; then the probes.

    A reader of patches has their vectors alone.
    """
    if target.apply is not None:
        yield from ((partial(is_applied, patch, target.apply), patch) for patch in load_patches())
        if target.package is LIBRARY.package:
            accepted = (patch for patch in load_patches() if patch.target is not None)
            yield from ((partial(tells_rightly, patch), patch) for patch in accepted)
        return
    for vector in vectors():
        yield partial(conforms, vector, target.decode), vector
    if target is LIBRARY:
        yield from ((Ways(vector), vector) for vector in vectors())
    else:
        yield from ((partial(has_meta, vector), vector) for vector in vectors() if vector.meta)
        yield from ((partial(is_indexed, closed), closed) for closed in load_indexes())
    splits = list(splits_of()) if target is LIBRARY else [(kind, reference_of(kind)) for kind in KINDS]
    for stream in load_streams():
        yield from ((partial(is_split, stream, kind, split), stream) for kind, split in splits)
    for probe in PROBES.values() if probes else ():
        yield partial(_is_unchanged, probe, probe()), None


KINDS = UNITS, CONTAINERS


def is_split(stream: Stream, kind: str, split: Split) -> bool:
    return check_stream(bounded(split), stream, kind) is None


def is_indexed(closed: Closed) -> bool:
    return check_index(read_index, closed) is None


def is_applied(patch: Patch, apply: Apply) -> bool:
    return check_patch(apply, patch) is None


def has_meta(vector: conformance.Vector) -> bool:
    """Tell whether the reference reads the metadata of a valid vector."""
    schema: Any = vector.schema or (vector.one and vector.one.tensor and {"": vector.one.tensor})
    limits = reference.Limits(**vector.limits)
    found = reference.decode(
        vector.data, limits, schema, single=vector.one is not None, zstd=find_decompressor()
    )
    tensors = {found.tensors[key].name: texts for key, texts in found.meta.tensors.items()}
    return {"container": found.meta.container, "tensors": tensors} == vector.meta


def conforms(vector: conformance.Vector, decode: conformance.Decode = library) -> bool:
    return conformance.check(decode, vector) is None


def _is_unchanged(probe: Callable[[], list[str]], before: list[str]) -> bool:
    return probe() == before


def find_trials(target: Target = LIBRARY, *, probes: bool = False) -> dict[Place, list[Known]]:
    """Return the trials that execute each function of the decoding side.

    Of several ``Ways`` of one kind, only the first is used.
    """
    found: dict[Place, list[Known]] = {}
    seen: set[Any] = set()
    for trial, vector in list_trials(target, probes=probes):
        start = time.process_time()
        assert trial(), trial  # what runs only once, such as a cached function, is not traced
        seconds = time.process_time() - start
        _, ran = run_traced(trial, target)
        known = Known(trial, ran, _outcome_of(vector), seconds, vector is None)
        if isinstance(trial, Ways) and known.kind in seen:
            continue
        if isinstance(trial, Ways):
            seen.add(known.kind)
        for place in ran:
            found.setdefault(place, []).append(known)
    return found


def _outcome_of(vector: Shown | None) -> tuple[Any, ...]:
    if vector is None:
        return ()
    if isinstance(vector, Patch):
        return vector.result, vector.code, bool(vector.limits), vector.part
    if isinstance(vector, Closed):
        return vector.result, vector.code, bool(vector.limits)
    if isinstance(vector, Stream):
        return vector.outcome.result, vector.outcome.code, bool(vector.limits)
    return vector.result, vector.code, bool(vector.limits), bool(vector.expected)


def run_traced(trial: Trial, target: Target) -> tuple[bool, frozenset[Place]]:
    """Run a trial; return its result and the functions of the decoder that it executes."""
    ran: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            ran.add(frame.f_code)

    sys.setprofile(note)
    try:
        right = trial()
    finally:
        sys.setprofile(None)
    return right, frozenset(place_of(code) for code in ran if code.co_filename.startswith(str(target.root)))


def judge(mutant: Mutant, noticing: Sequence[Known], target: Target) -> Verdict:
    """Try a mutant: with vectors, then with probes, then whether other functions of the decoder run."""
    noticing = order_trials(noticing)
    seconds = SECONDS + 3 * sum(each.seconds for each in noticing)
    for verdict, probes in ((Verdict.KILLED, False), (Verdict.PROBE, True)):
        if is_killed(mutant, [each.trial for each in noticing if each.is_probe == probes], seconds):
            return verdict
    few = list({each.kind: each for each in noticing}.values())
    return Verdict.PATH if takes_another_path(mutant, few, target) else Verdict.SURVIVES


def is_killed(mutant: Mutant | Edit, noticing: Sequence[Trial], seconds: float = SECONDS) -> bool:
    """Return whether a trial detects the mutant: by another result, an exception, or more CPU seconds."""

    def check() -> bool:
        _clear_caches()
        return all(trial() for trial in noticing)

    return _fails(mutant, check, seconds)


def takes_another_path(mutant: Mutant, noticing: Sequence[Known], target: Target) -> bool:
    """Return whether other functions of the decoder run in a trial, although its result is the same."""

    def check() -> bool:
        _clear_caches()
        return all(each.trial() and run_traced(each.trial, target)[1] == each.ran for each in noticing)

    return _fails(mutant, check, 3 * SECONDS)


def _fails(mutant: Mutant | Edit, check: Callable[[], bool], seconds: float) -> bool:
    """Return whether a check fails in a child with the mutant."""
    code = compile_mutant(mutant)
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        mutant.function.__code__ = code
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        try:
            wrong = not check()
        except BaseException:
            wrong = True
        os._exit(1 if wrong else 0)
    return os.waitpid(child, 0)[1] != 0


def _clear_caches() -> None:
    """Clear caches: their results are from before the change."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("wirecodec", "formats"):
            for thing in list(vars(module).values()):
                if hasattr(thing, "cache_clear"):
                    thing.cache_clear()
                elif isinstance(thing, KeptRecords):
                    thing.clear()


def order_trials(noticing: Sequence[Known]) -> list[Known]:
    """Return the trials in an order that detects early: first one of each kind."""
    drawn = random.Random(1).sample(noticing, len(noticing))
    first = {each.kind: each for each in reversed(drawn)}
    return [*first.values(), *(each for each in drawn if first[each.kind] is not each)]
