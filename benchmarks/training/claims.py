"""Claims of the five papers about training, and whether these runs reproduce them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.results import format_markdown
from benchmarks.training.rows import Row, compare, compute_slack, measure_deviation
from benchmarks.training.tasks.task import Task

__all__ = ["CLAIMS", "Claim", "format_claims", "judge"]

MOST = 0.25
"""Relative difference that is not called equal: if dense's seeds differ by so much, no claim is judged."""


@dataclass(frozen=True)
class Claim:
    """A system's metric, compared with another system's.

    Attributes:
        where: paper, with table or figure.
        text: what the paper says.
        task, system, against: names in this benchmark.
        better: True if the paper claims that ``system`` is better than ``against``, False if worse, None if
            equal.
    """

    where: str
    text: str
    task: str
    system: str
    against: str = "dense"
    better: bool | None = None


def _list_claims() -> tuple[Claim, ...]:
    sidco, deep, fft = "SIDCo, Figures 3-6", "DeepReduce", "FFT"
    top = "top-k 0.1 % as published"
    claims = [
        Claim(sidco, "trains like top-k at 0.001", task, "sidco", top)
        for task in ("text-lstm", "images", "text-transformer")
    ]
    claims += [
        Claim(sidco, "GaussianKSGD does not reach the loss", "text-lstm", "GaussianKSGD 0.1 %", top, False),
        Claim(sidco, "RedSync does not reach the loss", "text-lstm", "RedSync 0.1 %", top, False),
        Claim(f"{deep}, Figure 7", "BF-P0 ends like dense", "images", "deepreduce-bf-p0"),
        Claim(f"{deep}, Figure 7", "BF-P1 ends like dense", "images", "deepreduce-bf-p1"),
        Claim(f"{deep}, Figure 7", "BF-P2 ends like dense", "images", "deepreduce-bf-p2"),
        Claim(f"{deep}, Figure 7", "naive Bloom is much worse", "images", "naive Bloom", "dense", False),
        Claim(f"{deep}, Figure 8", "Fit-Poly ends like dense", "images", "deepreduce-fit-poly"),
        Claim(f"{deep}, Figure 8", "Fit-DExp ends like dense", "images", "deepreduce-fit-dexp"),
        Claim(
            f"{deep}, Figure 9",
            "both together end like top-k",
            "images",
            "deepreduce-both",
            "top-k 1 % as published",
        ),
    ]
    claims += [
        Claim(f"{deep}, Table 2", "hit rate as dense", "recommendations", system)
        for system in ("deepreduce-both", "skcompress", "deepreduce-qsgd-bf-p0")
    ]
    claims += [
        Claim(f"{fft}, Table 2", f"more accurate than {other}", "images", "fft", other, True)
        for other in ("qsgd", "terngrad", "top-k 15 %, no feedback")
    ]
    claims += [
        Claim(f"{fft}, Figure 13", "without 50 % as dense", "images", "FFT, 50 % left out"),
        Claim(f"{fft}, Figure 13", "without 90 % worse", "images", "FFT, 90 % left out", "dense", False),
    ]
    claims += [
        Claim("ScaleCom, Table 2", "ends like dense", task, "CLT-k 1 %, beta 1")
        for task in ("images", "text-lstm", "text-transformer")
    ]
    claims += [
        Claim(
            "ScaleCom, Table 3", "beta 0.1 as dense at a large batch", "images-large", "CLT-k 1 %, beta 0.1"
        ),
        Claim(
            "ScaleCom, Figure 5",
            "beta 1 worse than 0.1 at a large batch",
            "images-large",
            "CLT-k 1 %, beta 1",
            "CLT-k 1 %, beta 0.1",
            False,
        ),
    ]
    claims += [
        Claim("ScaleCom, Theorem 1", "more workers end like dense", f"images-{workers}-workers", system)
        for workers in (2, 8, 16)
        for system in ("CLT-k 1 %, beta 1", "CLT-k 1 %, beta 0.1")
    ]
    claims += [
        Claim("AdaComp, Table 2", "at most 1 % worse than dense", task, "adacomp")
        for task in ("images", "text-lstm")
    ]
    return tuple(claims)


CLAIMS = _list_claims()


def judge(claim: Claim, worse: float, deviation: float) -> str:
    """Return whether a claim holds.

    Args:
        claim: the claim.
        worse: relative distance of ``system`` from ``against``; negative if it is better.
        deviation: relative standard deviation of dense; 0 if unknown.
    """
    slack = compute_slack(deviation)
    if slack > MOST:
        return f"undecided: dense's seeds differ by {deviation:.0%}"
    if claim.better is None:
        return "reproduced" if worse <= slack else f"not reproduced, {worse:+.1%}"
    holds = -worse > slack if claim.better else worse > slack
    if holds:
        return "reproduced"
    return f"not reproduced, {worse:+.1%}" if abs(worse) > slack else f"no difference, {worse:+.1%}"


def format_claims(found: Mapping[str, Sequence[Row]], tasks: Sequence[Task]) -> str:
    """Format a table of the claims.

    Args:
        found: rows by task.
        tasks: all tasks.
    """
    header = ["paper", "claim", "system here", "against", "metric, bits", "its metric, bits", "verdict"]
    lines = []
    for claim in CLAIMS:
        task = next((task for task in tasks if task.name == claim.task), None)
        rows = {row.system.name: row for row in found.get(claim.task, ())}
        ours, other, dense = (rows.get(name) for name in (claim.system, claim.against, "dense"))
        names = [claim.where, claim.text, f"{claim.task}: {claim.system}", claim.against]
        if task is None or ours is None or other is None:
            lines.append([*names, "", "", "not run yet"])
            continue
        verdict = judge(claim, compare(task, ours.test, other.test), measure_deviation(task, dense))
        if min(ours.tries / ours.grid, other.tries / other.grid) < 1:
            verdict += "; provisional"
        numbers = (f"{row.test:.4g}, {row.best.bits:.3g}" for row in (ours, other))
        lines.append([*names, *numbers, verdict])
    return f"## The papers' claims about training\n\n{ABOUT}\n{format_markdown(header, lines)}"


ABOUT = """Models and data differ from the papers', so only the direction can agree. Two metrics count as
equal within two standard deviations of dense's seeds, or 1 %. Every system is at its best settings on the
common grid. If dense's seeds differ too much, a claim is not judged.
"""
