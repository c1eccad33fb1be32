"""What the two runs came to: a table to read, and a dictionary to keep.

Nothing is measured here. The table's caption says how each number was obtained.
"""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Any

from rich.table import Table

from benchmarks.demo.exchange import FUSE, SCHEMES
from benchmarks.demo.train import Run, Settings

__all__ = ["byte_text", "circumstances", "ratio", "summary", "table", "weights_text"]

_CAPTION = (
    "Bytes: dense is 2(n-1)/n of the float32 gradient a step on n ranks, the least that any dense all-reduce"
    " sends; compressed is what was really sent, headers included, mean over the ranks. Final loss: training,"
    " last 20 steps. Time: on one machine, where ranks share memory and bytes cost almost nothing. Accuracies"
    " a point or less apart do not differ: another seed moves them as much."
)


def byte_text(count: float, digits: int = 3) -> str:
    """1.50 MB, 654 MB; decimal units, this many digits and no fewer than stand before the point."""
    for unit in ("B", "kB", "MB", "GB"):
        rounded = float(f"{count:.{digits}g}")
        if rounded < 1000 or unit == "GB":
            break
        count /= 1000
    decimals = 0 if unit == "B" else max(0, digits - len(str(int(rounded))))
    return f"{rounded:.{decimals}f} {unit}"


def ratio(dense: Run, compressed: Run) -> float | None:
    """How many times fewer bytes the compressed run sent; None where nothing is sent, on one rank."""
    return float(dense.sent[-1] / compressed.sent[-1]) if compressed.sent[-1] else None


def circumstances(run: Run, parameters: int) -> str:
    """Task, ranks, steps and size of the model, in a line."""
    ranks = len(run.digests)
    return f"digits on {ranks} rank{'s' * (ranks > 1)}, {len(run.losses)} steps, {parameters:,} parameters"


def table(dense: Run, compressed: Run, parameters: int) -> Table:
    """One row a run.

    Args:
        dense, compressed: the two runs.
        parameters: how many the model has.
    """
    times = ratio(dense, compressed)
    grid = Table(
        title=circumstances(dense, parameters), caption=_CAPTION, caption_justify="left", title_style="bold"
    )
    for heading in ("", "test accuracy", "final loss", "bytes a rank sent", "ratio", "time"):
        grid.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for name, run, factor in (
        ("dense", dense, "1×"),
        ("compressed", compressed, f"{times:.0f}×" if times else "-"),
    ):
        grid.add_row(
            name,
            f"{100 * run.test_accuracy:.1f} %",
            f"{run.final_loss:.4f}",
            byte_text(run.sent[-1]),
            factor,
            f"{run.seconds:.1f} s",
        )
    return grid


def weights_text(run: Run) -> str:
    """Whether the ranks ended with the same weights."""
    shown = [digest[:16] for digest in run.digests]
    if not run.same_weights:
        return f"the ranks ended with DIFFERENT weights (SHA-256 {', '.join(shown)})"
    if len(shown) == 1:
        return f"one rank, weights with SHA-256 {shown[0]}"
    return f"all {len(shown)} ranks ended with the same weights, bit for bit (SHA-256 {shown[0]})"


def summary(runs: dict[str, Run], settings: Settings, parameters: int) -> dict[str, Any]:
    """Everything, fit for ``json.dump``; losses and bytes sent are lists with one number a step.

    Args:
        runs: by name, dense and compressed.
        settings: of both.
        parameters: how many the model has.
    """
    return {
        "machine": {"platform": platform.platform(), "python": platform.python_version()},
        "settings": asdict(settings),
        "schemes": SCHEMES,
        "fuse": FUSE,
        "parameters": parameters,
        "ranks": len(runs["dense"].digests),
        "ratio": ratio(runs["dense"], runs["compressed"]),
        "runs": {
            name: {
                "test_accuracy": run.test_accuracy,
                "test_loss": run.test_loss,
                "final_loss": run.final_loss,
                "bytes_a_rank_sent": float(run.sent[-1]),
                "seconds": run.seconds,
                "exchange_seconds": run.exchange_seconds,
                "same_weights": run.same_weights,
                "digests": run.digests,
                "losses": run.losses.tolist(),
                "sent": run.sent.tolist(),
            }
            for name, run in runs.items()
        },
    }
