"""Data files of the page: tables whose cells are texts."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.inputs import DENSITIES
from benchmarks.papers import adacomp, deepreduce, fft, memories, scalecom, sidco
from benchmarks.papers.networks import NETWORKS
from benchmarks.papers.scalecom import METHODS, MINIBATCHES, TERAFLOPS, WORKERS, compute_shares

__all__ = ["Table", "list_tables", "write_table"]


@dataclass(frozen=True)
class Table:
    """Table of a data file."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def write_table(path: Path, table: Table) -> None:
    """Write a table as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([table.header, *table.rows])


def list_tables(found: Mapping[str, Any]) -> dict[str, Table]:
    """List the tables by the name of their data file.

    Args:
        found: results of all parts, by their names.
    """
    stress = (*adacomp.list_stress(), *adacomp.DENSE_LAYERS, *adacomp.MIXED)
    return {
        "sidco_counts": _list_counts(found),
        "deepreduce_rates": _list_rates(
            [p for r in deepreduce.RATES for p in found[deepreduce.name_rate(r)]]
        ),
        "fft_status": _list_status(found[fft.STATUS]),
        "scalecom_similarity": _list_similarity([found[scalecom.name_run(name)] for name in memories.SETUPS]),
        "scalecom_model": _list_model(),
        "adacomp_stress": _list_stress([found[adacomp.name_run(*key)] for key in stress]),
    }


def _list_counts(found: Mapping[str, Any]) -> Table:
    """List the counts of every selector on every network."""
    rows = []
    for network in NETWORKS:
        for name in sidco.build_selectors(DENSITIES[0]):
            for density in DENSITIES:
                count: sidco.Count = found[sidco.name_count(network, density, name)]
                ends = (f"{x:.2f}" for x in (count.ratios.mean(), *count.interval))
                rows.append([network, name, f"{density:g}", *ends, f"{count.loss:.2g}"])
    return Table(["network", "selector", "density", "mean", "low", "high", "loss"], rows)


def _list_rates(points: Sequence[deepreduce.PolicyPoint]) -> Table:
    """List Figure 6's policies at every rate."""
    rows = [
        [
            *(f"{p.rate:g}", p.policy, f"{p.kept:.1%}", f"{p.volume:.2f}", f"{p.error:.2f}"),
            "refused" if p.refused else "",
        ]
        for p in points
    ]
    return Table(["rate", "policy", "kept", "volume", "error", "reader"], rows)


def _list_status(found: Sequence[tuple[float, float, float, float]]) -> Table:
    """List the cost of the status vector."""
    rows = [[f"{t:g}", f"{s:.1%}", f"{bitmap:.1f}×", f"{rice:.1f}×"] for t, s, bitmap, rice in found]
    return Table(["θ", "bitmap's part of the bytes", "ratio, bitmap", "ratio, Rice codes"], rows)


def _list_similarity(found: Sequence[memories.Run]) -> Table:
    """List the similarity of the ranks in every run."""
    rows = [
        [
            run.name,
            f"{run.distances[0]:.2f}, {run.distances.min():.2f}, {run.distances[-1]:.2f}",
            f"{run.areas.max():.0%}, {run.areas[-1]:.0%}",
            f"{run.hamming.min():.2f}-{run.hamming.max():.2f}",
            f"{run.contraction[-1]:.3f}",
            f"{run.top[-1]:.3f}",
            f"{run.loss:.2g}",
        ]
        for run in found
    ]
    return Table(["run", "distance", "area", "d/k", "contraction", "γ₀", "loss"], rows)


def _list_model() -> Table:
    """List the performance model's parts of a step."""
    rows = []
    for teraflops in TERAFLOPS:
        for minibatch in MINIBATCHES:
            for workers in WORKERS[::2]:
                times = {m: compute_shares(workers, minibatch, teraflops, m) for m in METHODS}
                totals = {m: sum(t) for m, t in times.items()}
                rows.append(
                    [
                        *(str(teraflops), str(minibatch), str(workers)),
                        *(f"{times[m][1] / totals[m]:.0%}" for m in METHODS),
                        *(f"{totals['dense'] / totals[m]:.2f}×" for m in METHODS[1:]),
                    ]
                )
    header = ["TFLOPs", "images", "workers", *METHODS, *(f"speed-up, {m}" for m in METHODS[1:])]
    return Table(header, rows)


def _list_stress(found: Sequence[adacomp.Run]) -> Table:
    """List the stress tests of all methods and bins."""
    rows = [
        [
            f"{run.method}, {run.bin}{', FC alone' if run.scope == 'FC' else ''}",
            f"{run.rate:,.0f}×" if "Seide" not in run.method else "–",
            f"{run.error:.1%}",
            f"{run.residuals[len(run.residuals) // 4]:.2g}",
            f"{run.residuals[-1]:.2g}",
            f"{run.gradients[-1]:.2g}",
            f"{run.last_residual.min():.2g} … {run.last_residual.max():.2g}",
        ]
        for run in found
    ]
    header = ["method, bin", "rate", "test error", "RG, first quarter", "RG, end", "dW, end", "range of RG"]
    return Table(header, rows)
