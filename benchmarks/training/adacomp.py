"""Training with AdaComp and error feedback, and the table of its compression rates; needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.progress import track

import wirecodec as wc
from benchmarks.common.results import format_markdown
from benchmarks.training.recipes import RECIPES

__all__ = ["measure_page", "train"]

RUNS = (("resnet20", 50, "40×"), ("resnet20", 500, ""), ("lstm", 500, "200×"))
"""(model, bin, rate in the paper's abstract)."""
MIN_DIMENSIONS = {"resnet20": 4, "lstm": 2}
"""Number of dimensions from which a parameter is compressed."""
COUNTED = {"resnet20": "the convolutions of resnet20", "lstm": "the matrices of lstm"}
"""The parameters that are compressed."""
STOPS = (10, 50, 100, 200, 300)
"""Steps of feedback after which the rate is reported."""
WINDOW = 10
"""Steps in each mean."""
HEADER = [
    "model, bin, steps of feedback",
    "sent",
    "sent per bin",
    "empty bins",
    "bits per sent element, index + value",
    "rate",
    "rate with the table",
    "rate with Rice codes",
    "rate as in the paper",
    "paper",
    "‖residual‖ / ‖gradient‖",
    "loss",
    "uncompressed loss",
]


@dataclass(frozen=True)
class Step:
    """Size of one step over all compressed layers.

    Attributes:
        loss: training loss.
        elements: number of elements.
        sent: number of sent elements.
        empty_bins, bins: number of empty bins and of all bins.
        index_bytes, value_bytes: bytes of the sections.
        blob_bytes: bytes of the container.
        rice_bytes: bytes of the sections with ``rice`` and ``sign-scale``.
        residual: norm of the residual relative to the gradient.
    """

    loss: float
    elements: int = 0
    sent: int = 0
    empty_bins: int = 0
    bins: int = 0
    index_bytes: int = 0
    value_bytes: int = 0
    blob_bytes: int = 0
    rice_bytes: int = 0
    residual: float = 0.0


def train(model: str, bin: int | None, steps: int) -> list[Step]:
    """Train with AdaComp and error feedback, or uncompressed if ``bin`` is None; return every step."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    recipe = RECIPES[model]
    net, batches = recipe.net(), recipe.batches()
    minimum = MIN_DIMENSIONS[model]
    layers = [] if bin is None else [name for name, p in net.parameters.items() if p.ndim >= minimum]
    scheme = (
        "all | raw-index | raw" if bin is None else f"adacomp(bin={bin}) | binned(bin={bin}) | sign-scale"
    )
    compressor = wc.Compressor(scheme, names=False)
    history = []
    for _ in track(range(steps), f"{model}, bins of {bin}"):
        loss = net.loss(*next(batches))
        gradients = dict(
            zip(net.parameters, torch.autograd.grad(loss, list(net.parameters.values())), strict=True)
        )
        norm = torch.sqrt(sum(g.square().sum() for g in gradients.values()))
        factor = (recipe.clip / norm).clamp(max=1)
        gradients = {name: factor * g for name, g in gradients.items()}
        step = Step(loss.item())
        if bin is not None:
            arrays = {name: gradients[name].numpy() for name in layers}
            prepared = compressor.prepare(arrays)
            prepared.commit()
            step = _measure_step(compressor, prepared, arrays, bin, loss.item())
            gradients |= {name: torch.from_numpy(t.to_dense()) for name, t in prepared.sent.items()}
        history.append(step)
        with torch.no_grad():
            for name, p in net.parameters.items():
                p.sub_(gradients[name], alpha=recipe.rate)
    return history


def _measure_step(
    compressor: wc.Compressor, prepared: wc.Prepared, gradients: dict[str, Any], bin: int, loss: float
) -> Step:
    entries = wc.inspect(prepared.blob).entries
    bins = sum(-(-g.size // bin) for g in gradients.values())
    used_bins = sum(np.unique(t.indices // bin).size for t in prepared.sent.values())
    rice = wc.encode_many(prepared.sent, "all | rice | sign-scale")
    return Step(
        loss,
        elements=sum(g.size for g in gradients.values()),
        sent=sum(e.nnz for e in entries),
        empty_bins=bins - used_bins,
        bins=bins,
        index_bytes=sum(e.index_bytes for e in entries),
        value_bytes=sum(e.value_bytes for e in entries),
        blob_bytes=prepared.blob.nbytes,
        rice_bytes=sum(e.index_bytes + e.value_bytes for e in wc.inspect(rice).entries),
        residual=_compute_norm([compressor.residual(name) for name in gradients])
        / _compute_norm(gradients.values()),
    )


def _compute_norm(arrays: Iterable[Any]) -> float:
    return float(np.sqrt(sum(float(np.sum(np.square(x, dtype=np.float64))) for x in arrays)))


def format_row(
    name: str, bin: int, paper: str, steps: Sequence[Step], uncompressed: Sequence[Step]
) -> list[str]:
    """Format the means of some consecutive steps as a table row.

    Args:
        name: of the row.
        bin: elements per bin.
        paper: rate in the paper.
        steps: with compression.
        uncompressed: the same steps without compression.
    """

    def mean(value: Callable[[Step], float]) -> float:
        return float(np.mean([value(step) for step in steps]))

    word_bits = 8 if bin < 64 else 16
    elements, bins = steps[0].elements, steps[0].bins
    sent, dense = mean(lambda s: s.sent), 4 * elements
    index_bits = mean(lambda s: 8 * s.index_bytes / s.sent)
    value_bits = mean(lambda s: 8 * s.value_bytes / s.sent)
    paper_bytes = mean(lambda s: (s.sent + s.empty_bins) * word_bits / 8)
    return [
        name,
        f"{sent / elements:.2%}",
        f"{sent / bins:.2f}",
        f"{mean(lambda s: s.empty_bins / s.bins):.1%}",
        f"{index_bits:.2f} + {value_bits:.2f}",
        f"{dense / mean(lambda s: s.index_bytes + s.value_bytes):.1f}×",
        f"{dense / mean(lambda s: s.blob_bytes):.1f}×",
        f"{dense / mean(lambda s: s.rice_bytes):.1f}×",
        f"{dense / paper_bytes:.1f}×",
        paper,
        f"{mean(lambda s: s.residual):.2f}",
        f"{mean(lambda s: s.loss):.3f}",
        f"{np.mean([step.loss for step in uncompressed]):.3f}",
    ]


def format_answer(rows: Sequence[Sequence[str]]) -> str:
    """Answer the page's question with each model's last row whose rate the paper has."""
    last = {row[0].partition(",")[0]: dict(zip(HEADER, row, strict=True)) for row in rows if row[9]}
    rates = [
        f"{COUNTED[model]} {_number(row['rate'])} times, "
        f"by the paper's count {_number(row['rate as in the paper'])} (paper: {_number(row['paper'])})"
        for model, row in last.items()
    ]
    losses = [f"{row['loss']} ({row['uncompressed loss']})" for row in last.values()]
    return (
        f"At the end of training, `adacomp` compresses {' and '.join(rates)}. "
        f"The training losses are {' and '.join(losses)}; uncompressed training's are in brackets.\n\n"
    )


def _number(cell: str) -> str:
    return cell.removesuffix("×")


def measure_page(steps: int) -> str:
    """Train every model and format the result page as Markdown.

    Args:
        steps: training steps of each run.
    """
    uncompressed = {model: train(model, None, steps) for model in MIN_DIMENSIONS}
    stops = [n for n in STOPS if n < steps] + [steps]
    rows = []
    for model, bin, paper in RUNS:
        history = train(model, bin, steps)
        for n in stops:
            window = slice(max(0, n - WINDOW), n)
            name = f"{model}, {bin}, {window.start + 1}-{n}"
            rows.append(format_row(name, bin, paper, history[window], uncompressed[model][window]))
    models = "".join(f"- {model}: {RECIPES[model].about}.\n" for model in MIN_DIMENSIONS)
    text = f"""{format_answer(rows)}Means over ten steps, scheme `adacomp · binned · sign-scale`.

{models}
*Rate* is 4 bytes per element divided by the bytes of the sections. *Rate with the table* divides by the bytes
of the whole container, whose table takes 48 bytes per layer. *Rate with Rice codes* divides by the bytes of
`rice` and `sign-scale`. *Rate as in the paper* counts 8 bits per sent element, or 16 bits for bins of 64 and
more. The paper does not mention empty bins; here each counts like an element.

Other parameters are sent dense and do not count. The paper's LSTM reads 67 characters. This one has an
embedding of 4,000 tokens, of which a step has at most 560, so most of its rows have no gradient.

"""
    return text + format_markdown(HEADER, rows)
