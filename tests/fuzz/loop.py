"""The plain loop of ``make fuzz``: mutations of golden vectors, judged; also what atheris' targets share.

    python -m tests.fuzz.loop {decode,round_trip} [SECONDS] [--seed N] [--finds FOLDER]

A finding is written to FOLDER under a name made of its bytes; ``tests.fuzz.loop FILE…`` judges files again.
Its bytes, named and with the right verdict, belong into formats/vector_cases as a vector.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.fuzz.judge import Finding, judge
from tests.fuzz.mutate import mutated
from tests.fuzz.round_trip import round_trip
from tests.fuzz.seeds import all_seeds, large_seed, patterns, valid_seeds

FINDS = Path("fuzz-finds")

_SIZES = 2**16, 2**22
"""Bytes of large seeds."""
_LARGE, _HUGE = 0.005, 0.05
"""The share of mutations that begin with a large seed, and of those the share with the larger one."""


def keep(data: bytes, why: str, finds: Path) -> Path:
    """The file into which a finding's bytes are written."""
    finds.mkdir(exist_ok=True)
    path = finds / f"find-{hashlib.sha256(data).hexdigest()[:12]}.wc"
    path.write_bytes(data)
    print(f"{path}: {why}", flush=True)
    return path


def one_mutation(rng: random.Random) -> bytes:
    """A golden vector with some changes."""
    everything = all_seeds()
    if rng.random() < _LARGE:
        size = _SIZES[rng.random() < _HUGE]
        return mutated(large_seed(rng.choice(patterns()), size), everything, rng)
    return mutated(rng.choice(valid_seeds() if rng.random() < 0.8 else everything), everything, rng)


def run(target: str, seconds: float, seed: int, finds: Path, cases: int = sys.maxsize) -> int:
    """So many cases, or until the time is over; how many went wrong, each way counted once."""
    rng = random.Random(seed)
    stop = time.monotonic() + seconds
    found: set[str] = set()
    done = 0
    while done < cases and time.monotonic() < stop:
        done += 1
        data = one_mutation(rng) if target == "decode" else rng.randbytes(rng.randint(0, 400))
        check: Callable[[bytes], object] = judge if target == "decode" else round_trip
        try:
            check(data)
        except Finding as finding:
            if str(finding)[:60] not in found:
                found.add(str(finding)[:60])
                keep(data, str(finding), finds)
    print(f"{target}: {done} cases, {len(found)} findings")
    return len(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 0 where nothing was found."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Mutate containers, and judge what readers do.")
    parser.add_argument("target", help="decode, round_trip, or a file to judge again")
    parser.add_argument("seconds", nargs="?", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--finds", type=Path, default=FINDS)
    options = parser.parse_args(arguments)
    if options.target in ("decode", "round_trip"):
        return int(run(options.target, options.seconds, options.seed, options.finds) > 0)
    print(judge(Path(options.target).read_bytes()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
