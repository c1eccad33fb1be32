"""Results of the two runs as a table and as a dictionary."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Any

from rich.filesize import decimal
from rich.table import Table

from benchmarks.demo.choices import DEFAULT, FUSE, Choice
from benchmarks.demo.train import Run, Settings

__all__ = [
    "build_table",
    "compute_ratio",
    "describe_comparison",
    "describe_run",
    "describe_weights",
    "summarise",
]

_CAPTION = (
    "Bytes: dense counts 2(n-1)/n of the float32 gradient per step on n ranks, the minimum of a dense "
    "all-reduce; compressed counts the bytes sent, headers included, mean over the ranks. Final loss: "
    "training loss, mean of the last 20 steps. Time: on one machine, where ranks share memory and bytes "
    "cost almost nothing; `wirecodec advise` predicts it for a network. Accuracies within one point do not "
    "differ: they vary as much between seeds."
)


def compute_ratio(dense: Run, compressed: Run) -> float | None:
    """Return the bytes of dense relative to compressed; None on one rank, which sends nothing."""
    return float(dense.sent[-1] / compressed.sent[-1]) if compressed.sent[-1] else None


def describe_run(run: Run, parameters: int) -> str:
    """Describe task, ranks, steps and size of the model in one line."""
    ranks = len(run.digests)
    return f"digits on {ranks} rank{'s' * (ranks > 1)}, {len(run.losses)} steps, {parameters:,} parameters"


def describe_comparison(run: Run, parameters: int, choice: Choice) -> str:
    """Describe a run and the compression in one line; the demo's own schemes are not listed."""
    text = f"; {choice.name}: {choice.text}" if choice.text else ""
    return describe_run(run, parameters) + text


def build_table(dense: Run, compressed: Run, parameters: int, choice: Choice = DEFAULT) -> Table:
    """Build a table with one row per run.

    Args:
        dense, compressed: the two runs.
        parameters: number of parameters of the model.
        choice: the compression.
    """
    ratio = compute_ratio(dense, compressed)
    grid = Table(
        title=describe_comparison(dense, parameters, choice),
        caption=_CAPTION,
        caption_justify="left",
        title_style="bold",
    )
    for heading in ("", "test\naccuracy", "final\nloss", "bytes sent\nper rank", "ratio", "time"):
        grid.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for name, run, factor in (
        ("dense", dense, "1×"),
        (choice.name, compressed, _format_ratio(ratio)),
    ):
        grid.add_row(
            name,
            f"{100 * run.test_accuracy:.1f} %",
            f"{run.final_loss:.4f}",
            decimal(round(run.sent[-1])),
            factor,
            f"{run.seconds:.1f} s",
        )
    return grid


def describe_weights(run: Run) -> str:
    """Describe whether the ranks have the same weights."""
    shown = [digest[:16] for digest in run.digests]
    if not run.same_weights:
        return f"the ranks have DIFFERENT weights (SHA-256 {', '.join(shown)})"
    if len(shown) == 1:
        return f"one rank, weights with SHA-256 {shown[0]}"
    return f"all {len(shown)} ranks have the same weights, bit for bit (SHA-256 {shown[0]})"


def _format_ratio(ratio: float | None) -> str:
    """Format a ratio with two digits or more; "-" if there is none."""
    return "-" if ratio is None else f"{ratio:.0f}×" if ratio >= 9.95 else f"{ratio:.1f}×"


def summarise(
    runs: dict[str, Run], settings: Settings, parameters: int, choice: Choice = DEFAULT
) -> dict[str, Any]:
    """Convert everything to a dictionary for ``json.dump``.

    Losses and bytes are lists with one number per step.

    Args:
        runs: by name, dense and compressed.
        settings: of both runs.
        parameters: number of parameters of the model.
        choice: the compression.
    """
    return {
        "machine": {"platform": platform.platform(), "python": platform.python_version()},
        "settings": asdict(settings),
        "system": choice.name,
        "schemes": choice.settings,
        "fuse": FUSE if choice is DEFAULT else 0,
        "parameters": parameters,
        "ranks": len(runs["dense"].digests),
        "ratio": compute_ratio(runs["dense"], runs["compressed"]),
        "runs": {
            name: {
                "test_accuracy": run.test_accuracy,
                "test_loss": run.test_loss,
                "final_loss": run.final_loss,
                "bytes_sent_per_rank": float(run.sent[-1]),
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
