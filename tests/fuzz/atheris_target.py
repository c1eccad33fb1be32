"""Fuzz targets for atheris, which is guided by code coverage: ``make fuzz``.

    python -m tests.fuzz.atheris_target {decode,round_trip} [CORPUS…] [options of libFuzzer]

Atheris has no wheels for some platforms; tests.fuzz.loop runs the same targets without coverage.
"""

from __future__ import annotations

import random
import sys

import atheris

with atheris.instrument_imports(
    include=["wirecodec"],
    exclude=["wirecodec.kernels"],  # compiled by Numba
    enable_loader_override=False,
):
    import wirecodec  # noqa: F401  before anything else imports it

from tests.fuzz.judge import Finding, judge
from tests.fuzz.loop import FINDS, keep
from tests.fuzz.mutate import mutate_container
from tests.fuzz.round_trip import round_trip
from tests.fuzz.seeds import all_seeds, large_seed, patterns


def decode(data: bytes) -> None:
    """Decode the bytes; compare every third input with the reference decoder."""
    try:
        judge(data, compared=len(data) % 3 == 0, slower=5)
    except Finding as finding:
        keep(data, str(finding), FINDS)
        raise


def encode_and_decode(data: bytes) -> None:
    """Encode the tensor that the bytes describe, and decode it."""
    try:
        round_trip(data)
    except Finding as finding:
        keep(data, str(finding), FINDS)
        raise


def structured(data: bytes, max_size: int, seed: int) -> bytes:
    """Mutate a container and keep its lengths and checksums correct."""
    return mutate_container(data, all_seeds(), random.Random(seed))[:max_size]


def main() -> None:
    """Fuzz one target with the given options of libFuzzer."""
    name = sys.argv.pop(1)
    corpus = FINDS / f"corpus-{name}"
    corpus.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    begin = (
        [*all_seeds(), *(large_seed(p, 2**16) for p in patterns())]
        if name == "decode"
        else [rng.randbytes(rng.randint(6, 400)) for _ in range(500)]
    )
    for n, data in enumerate(begin):
        (corpus / f"{n}.wc").write_bytes(data)
    if name == "decode":
        atheris.Setup([*sys.argv, str(corpus)], decode, custom_mutator=structured)
    else:
        atheris.Setup([*sys.argv, str(corpus)], encode_and_decode)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
