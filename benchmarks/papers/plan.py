"""All measurements of the page, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.papers import adacomp, deepreduce, fft, scalecom, sidco
from benchmarks.papers.parts import Part
from benchmarks.papers.reproductions import reproduce

__all__ = ["QUICK", "Results", "Steps", "collect", "list_parts"]


@dataclass(frozen=True)
class Steps:
    """Training steps of each paper's figures.

    Attributes:
        sidco, deepreduce, fft, scalecom, adacomp: of each of a paper's trainings.
    """

    sidco: int = 1000
    deepreduce: int = 1000
    fft: int = 200
    scalecom: int = 300
    adacomp: int = 400


QUICK = Steps(40, 20, 10, 20, 20)


@dataclass(frozen=True, eq=False)
class Results:
    """Results of the five papers."""

    sidco: sidco.Result
    deepreduce: deepreduce.Result
    fft: fft.Result
    scalecom: scalecom.Result
    adacomp: adacomp.Result


def list_parts(steps: Steps) -> list[Part]:
    """List all measurements; long ones come first."""
    return [
        *sidco.list_parts(steps.sidco),
        *scalecom.list_parts(steps.scalecom),
        *adacomp.list_parts(steps.adacomp),
        *deepreduce.list_parts(steps.deepreduce),
        *fft.list_parts(steps.fft),
        Part("DeepReduce and FFT: gradients of tests/data", reproduce),
    ]


def collect(found: Mapping[str, Any]) -> Results:
    """Collect the results of the figures that are drawn."""
    return Results(
        sidco.collect(found),
        deepreduce.collect(found),
        fft.collect(found),
        scalecom.collect(found),
        adacomp.collect(found),
    )
