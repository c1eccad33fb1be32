"""Targets of patches: sizes against the bound and the smallest other format, and speeds on one thread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchmarks.common.targets import TargetResult, check_at_least, check_at_most
from benchmarks.patches.measurement import Cell, Pair
from benchmarks.patches.peers import OURS

__all__ = ["SMALLEST", "check_targets"]

READ, UNREAD = (form.name for form in OURS)
SMALLEST = "gaps + XOR + zstd-1"
"""The smallest format of another project."""
FP8, DENSE, TABLE = "fp8", "fine-tuning", "table"
"""Words of the names of cases that are not steps of reinforcement learning on bfloat16."""


def is_steps(case: str) -> bool:
    """Return whether a case is steps of reinforcement learning on bfloat16 weights."""
    return not any(word in case for word in (FP8, DENSE, TABLE))


def check_targets(pairs: Sequence[Pair], cells: Sequence[Cell]) -> list[TargetResult]:
    """Check the targets on all cases that each of them is about."""
    found = {(cell.case, cell.format): cell for cell in cells}
    known: Mapping[str, Pair] = {pair.case: pair for pair in pairs}
    steps = [case for case in known if is_steps(case)]

    def bits(case: str, form: str) -> float:
        return 8 * found[case, form].patch / known[case].changed

    def ratios(cases: Sequence[str], form: str) -> list[tuple[str, float]]:
        return [(case, found[case, READ].patch / found[case, form].patch) for case in cases]

    def speeds(form: str, field: str) -> list[tuple[str, float]]:
        listed = [(case, float(getattr(found[case, form], field))) for case in steps]
        return [(case, speed) for case, speed in listed if not math.isnan(speed)]

    others = dict.fromkeys(cell.format for cell in cells if cell.format not in (READ, UNREAD))
    tables = [
        (f"{case}; {form}", ratio)
        for case in known
        if TABLE in case
        for form in others
        for _, ratio in ratios([case], form)
    ]
    dense = [case for case in known if DENSE in case]
    codes = [(case, bits(case, READ)) for case in known if FP8 in case]
    unread = [(case, bits(case, UNREAD)) for case in steps]
    return [
        check_at_most(
            "steps: bytes at most 1.10 of the bound",
            1.10,
            [(case, bits(case, READ) / known[case].bound) for case in steps],
        ),
        check_at_most(f"steps: bytes at most .55 of {SMALLEST}", 0.55, ratios(steps, SMALLEST)),
        check_at_most("steps, base unread: at most 9.7 bits per changed element", 9.7, unread),
        check_at_most("fp8 codes: at most 12.5 bits per changed code", 12.5, codes),
        check_at_most("fine-tuning: at most the bytes of XOR + zstd-3", 1.0, ratios(dense, "XOR + zstd-3")),
        check_at_most("table: at most the bytes of any other format", 1.0, tables),
        check_at_least("steps: diff at 1.0 GB/s on one thread", 1.0, speeds(READ, "encode"), "{:.2f}"),
        check_at_least("steps: apply at 1.5 GB/s on one thread", 1.5, speeds(READ, "apply"), "{:.2f}"),
        check_at_least(
            "steps, base unread: apply at 5 GB/s on one thread", 5.0, speeds(UNREAD, "apply"), "{:.2f}"
        ),
    ]
