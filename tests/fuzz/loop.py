"""Loop of ``make fuzz`` without coverage, and functions that it shares with the targets for atheris.

    python -m tests.fuzz.loop {decode,round_trip,patch} [SECONDS] [--seed N] [--finds FOLDER]

Each finding is written to FOLDER under the hash of its bytes; that of a patch is written with its state, as
vectors are. ``tests.fuzz.loop FILE`` judges a file again. Add the bytes of a finding to formats/vector_cases
as a vector, with the correct result.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from formats.patches import Patch
from tests.fuzz.judge import Finding, judge
from tests.fuzz.mutate import mutate_container
from tests.fuzz.patches import draw_patch, judge_patch, read_case, write_case
from tests.fuzz.round_trip import round_trip
from tests.fuzz.seeds import all_seeds, large_seed, patterns, valid_seeds

FINDS = Path("fuzz-finds")
T = TypeVar("T")

_SIZES = 2**16, 2**22
"""Bytes of large seeds."""
_LARGE, _HUGE = 0.005, 0.05
"""Fraction of mutations of a large seed, and the fraction of these that use the larger size."""


def keep(data: bytes, why: str, finds: Path, suffix: str = ".wc") -> Path:
    """Write a finding's bytes to a file and return its path."""
    finds.mkdir(exist_ok=True)
    path = finds / f"find-{hashlib.sha256(data).hexdigest()[:12]}{suffix}"
    path.write_bytes(data)
    print(f"{path}: {why}", flush=True)
    return path


def draw_mutation(rng: random.Random) -> bytes:
    """Mutate a golden vector or a large seed."""
    everything = all_seeds()
    if rng.random() < _LARGE:
        size = _SIZES[rng.random() < _HUGE]
        return mutate_container(large_seed(rng.choice(patterns()), size), everything, rng)
    return mutate_container(rng.choice(valid_seeds() if rng.random() < 0.8 else everything), everything, rng)


@dataclass(frozen=True)
class Target(Generic[T]):
    """What a run draws and checks, and the form of the file of a finding."""

    draw: Callable[[random.Random], T]
    check: Callable[[T], object]
    write: Callable[[T], bytes]
    suffix: str = ".wc"

    def find(self, rng: random.Random, finds: Path, seen: set[str]) -> None:
        """Draw and check one case; keep a finding of a kind that was not seen."""
        case = self.draw(rng)
        try:
            self.check(case)
        except Finding as finding:
            if str(finding)[:60] not in seen:
                seen.add(str(finding)[:60])
                keep(self.write(case), str(finding), finds, self.suffix)


PATCH = Target[Patch](draw_patch, judge_patch, write_case, ".json")
TARGETS: dict[str, Target[bytes] | Target[Patch]] = {
    "decode": Target[bytes](draw_mutation, judge, bytes),
    "round_trip": Target[bytes](lambda rng: rng.randbytes(rng.randint(0, 400)), round_trip, bytes),
    "patch": PATCH,
}


def run(target: str, seconds: float, seed: int, finds: Path, cases: int = sys.maxsize) -> int:
    """Run cases until their number or the time is reached; return the number of distinct findings."""
    rng = random.Random(seed)
    stop = time.monotonic() + seconds
    found: set[str] = set()
    done = 0
    while done < cases and time.monotonic() < stop:
        done += 1
        TARGETS[target].find(rng, finds, found)
    print(f"{target}: {done} cases, {len(found)} findings")
    return len(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 if there is no finding."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Mutate containers and judge the decoders.")
    parser.add_argument("target", help=f"{', '.join(TARGETS)}, or a file to judge again")
    parser.add_argument("seconds", nargs="?", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--finds", type=Path, default=FINDS)
    options = parser.parse_args(arguments)
    if options.target in TARGETS:
        return int(run(options.target, options.seconds, options.seed, options.finds) > 0)
    data = Path(options.target).read_bytes()
    print(judge_patch(read_case(data)) if options.target.endswith(PATCH.suffix) else judge(data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
