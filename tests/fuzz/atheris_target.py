"""Fuzz targets for atheris, which is guided by code coverage: ``make fuzz``.

    python -m tests.fuzz.atheris_target {decode,round_trip,patch} [CORPUS…] [options of libFuzzer]

Atheris has no wheels for some platforms; tests.fuzz.loop runs the same targets without coverage.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace

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
from tests.fuzz.patches import corpus, judge_patch, write_case
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


NUMBER = 2
"""Bytes before a patch: the number of the vector whose state it is applied to."""


def apply(data: bytes) -> None:
    """Apply the patch to the state of a vector; compare every third input with the reference."""
    number = int.from_bytes(data[:NUMBER], "little") % len(corpus())
    case = replace(corpus()[number], data=data[NUMBER:], target=None)
    try:
        judge_patch(case, compared=len(data) % 3 == 0, slower=5)
    except Finding as finding:
        keep(write_case(case), str(finding), FINDS, ".json")
        raise


def structured_patch(data: bytes, max_size: int, seed: int) -> bytes:
    """Mutate a patch, but not its number."""
    others = [patch.data for patch in corpus()]
    return (data[:NUMBER] + mutate_container(data[NUMBER:], others, random.Random(seed)))[:max_size]


def list_seeds(name: str) -> list[bytes]:
    """Return the inputs with which a target begins."""
    if name == "decode":
        return [*all_seeds(), *(large_seed(p, 2**16) for p in patterns())]
    if name == "patch":
        return [n.to_bytes(NUMBER, "little") + patch.data for n, patch in enumerate(corpus())]
    rng = random.Random(0)
    return [rng.randbytes(rng.randint(6, 400)) for _ in range(500)]


TARGETS: dict[str, tuple[Callable[[bytes], None], dict[str, Callable[[bytes, int, int], bytes]]]] = {
    "decode": (decode, {"custom_mutator": structured}),
    "round_trip": (encode_and_decode, {}),
    "patch": (apply, {"custom_mutator": structured_patch}),
}


def main() -> None:
    """Fuzz one target with the given options of libFuzzer."""
    name = sys.argv.pop(1)
    folder = FINDS / f"corpus-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    for n, data in enumerate(list_seeds(name)):
        (folder / f"{n}.wc").write_bytes(data)
    check, options = TARGETS[name]
    atheris.Setup([*sys.argv, str(folder)], check, **options)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
