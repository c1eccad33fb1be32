"""All measurements of the page."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.papers import adacomp, deepreduce, fft, scalecom, sidco
from benchmarks.papers.parts import Part
from benchmarks.papers.reproductions import reproduce

__all__ = ["QUICK", "Steps", "list_parts"]


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
