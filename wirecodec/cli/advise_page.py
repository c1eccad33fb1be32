"""The page of ``wirecodec advise``."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from wirecodec.cli.advise import Advice, Verdict
from wirecodec.cli.cost_model import Network
from wirecodec.cli.formatting import table
from wirecodec.cli.units import bandwidth_text, seconds_text

__all__ = ["text"]


def text(advice: Advice, name: str, *, error: bool = False, others: Sequence[int] = ()) -> str:
    """The page as plain text.

    Args:
        advice: what to tell.
        name: of the gradient.
        error: whether to tell each scheme's error, too.
        others: numbers of ranks of which to tell the outcome, too.
    """
    network, ranks = advice.network, advice.network.ranks
    dense = advice.dense
    elements = advice.verdicts[0].measured.elements
    outcome = ["scheme", "ratio", "exchange", "speed-up", "way", "pays", *(["error"] if error else [])]
    parts = ["scheme", "bytes", "select", "encode", "decode", "rest", "sending", "least ratio"]
    lines = [
        f"{name}: {elements:,} elements; {ranks} ranks at {bandwidth_text(network.bandwidth)}, "
        f"{seconds_text(network.latency)} a message",
        *table(outcome, [_outcome(verdict, error=error) for verdict in advice.verdicts]),
        "",
        *table(parts, [_parts(verdict, network) for verdict in advice.verdicts]),
        "",
        f"dense all-reduce of {advice.gradient.nbytes:,} bytes: {seconds_text(dense.seconds(network))}, "
        f"{seconds_text(dense.nbytes / network.bandwidth)} of it sending",
        *_conclusion(advice),
        *_by_ranks(advice, others),
        *(f"left out: {scheme}: {why}" for scheme, why in advice.refused),
        *_ways({v.way.name for v in advice.verdicts}),
        f"Every rank is taken to be this machine, with {_threads()} and nothing else to do. It sends and",
        f"receives at once; where encodings are gathered, it decodes all {ranks}. The rest is the vector of",
        "sums, and latencies. This is about time alone, not about accuracy, and without error feedback.",
    ]
    return "\n".join(lines)


def _by_ranks(advice: Advice, ranks: Sequence[int]) -> list[str]:
    """What comes out where there are more ranks, or fewer."""
    if not ranks:
        return []
    rows = []
    for n in ranks:
        there = advice.at(n)
        best = there.verdicts[0]
        pay = sum(verdict.pays for verdict in there.verdicts)
        rows.append([str(n), str(pay), f"{best.speed_up:.2f}", best.measured.scheme])
    return ["", *table(["ranks", "schemes that pay", "speed-up", "fastest"], rows, {3}), ""]


def _outcome(verdict: Verdict, *, error: bool) -> list[str]:
    """What an exchange comes to."""
    measured = verdict.measured
    return [
        measured.scheme,
        f"{measured.ratio:.1f}",
        seconds_text(verdict.seconds),
        f"{verdict.speed_up:.2f}",
        verdict.way.name,
        " and ".join(map(_span_text, verdict.spans)) or "nowhere",
        *([f"{measured.error:.3g}"] if error else []),
    ]


def _parts(verdict: Verdict, network: Network) -> list[str]:
    """What it is made of, and the ratio that a scheme of these times would need."""
    stages = verdict.measured.stages
    decode = stages.decode * (network.ranks if verdict.way.name == "allgather" else 1)
    rest = verdict.way.waiting(network.latency) - stages.select - stages.encode - decode
    return [
        verdict.measured.scheme,
        f"{stages.nbytes:,}",
        seconds_text(stages.select),
        seconds_text(stages.encode),
        seconds_text(decode),
        seconds_text(max(rest, 0.0)),
        seconds_text(verdict.way.nbytes / network.bandwidth),
        "none" if verdict.least_ratio == math.inf else f"{verdict.least_ratio:.2f}",
    ]


def _span_text(span: tuple[float, float]) -> str:
    low, high = span
    ends = ([f"above {bandwidth_text(low)}"] if low else []) + (
        [f"below {bandwidth_text(high)}"] if high < math.inf else []
    )
    return ", ".join(ends) or "everywhere"


def _conclusion(advice: Advice) -> list[str]:
    best, tried = advice.verdicts[0], len(advice.verdicts)
    n = sum(verdict.pays for verdict in advice.verdicts)
    if n:
        lines = [
            f"{n} of {tried} schemes {'pays' if n == 1 else 'pay'}; fastest: {best.measured.scheme}, "
            f"{best.speed_up:.2f} times as fast as the dense all-reduce."
        ]
    else:
        lines = [
            f"{'It does not pay' if tried == 1 else f'None of {tried} schemes pays'}. {_why_not(advice)}"
        ]
    if advice.ceiling == math.inf:
        lines.append("However fast the network, one pays: it takes less time even without what is sent.")
    elif advice.ceiling:
        lines.append(f"From {bandwidth_text(advice.ceiling)} on none pays.")
    else:
        lines.append("At no bandwidth would one pay.")
    return lines


def _why_not(advice: Advice) -> str:
    """What the scheme that comes nearest would need."""
    near = min(advice.verdicts, key=lambda v: (v.least_ratio / v.measured.ratio, v.seconds))
    if near.least_ratio == math.inf:
        return "None would at any ratio: computing alone takes longer than the dense all-reduce."
    return (
        f"Nearest is {near.measured.scheme}: at its times a ratio above {near.least_ratio:.1f} would pay, "
        f"and it has {near.measured.ratio:.1f}."
    )


_WAYS = {
    "allgather": "every rank's encoding goes to every rank",
    "narrow": "an all-reduce of the values in their fewer bits",
    "decoded": "encoded and decoded, then a dense all-reduce",
}


def _ways(used: Collection[str]) -> list[str]:
    """What the names in the column ``way`` mean, a line each."""
    return [f"{name}: {meaning}" for name, meaning in _WAYS.items() if name in used]


def _threads() -> str:
    import numba

    n: Any = numba.get_num_threads()
    return f"{n} thread" + ("s" if n > 1 else "")
