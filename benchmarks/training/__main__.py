"""What does AdaComp compress real gradients to, once its own feedback has run for a while?

ResNet-20's convolutions go through ``adacomp`` with bins of 50, the paper's, and of 500; an LSTM language
model's matrices with bins of 500, the paper's. Each layer goes by itself, with residuals of its own; vectors
go as they are and do not count. Rates without 50 steps of feedback mean nothing: a first gradient has no
residual, and AdaComp sends a large part of it.

    python -m benchmarks.training [--steps N]

needs torch and scikit-learn: ``pip install torch scikit-learn``.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import track

import wirecodec as wc
from benchmarks.common.timing import keep, markdown

try:
    import torch

    from benchmarks.training.recipes import RECIPES
except ImportError:
    sys.exit("this benchmark trains models: pip install torch scikit-learn")

RUNS = (("resnet20", 50, "40×"), ("resnet20", 500, ""), ("lstm", 500, "200×"))
"""Models, bins, and the rates of the paper's table 2."""
LEAST = {"resnet20": 4, "lstm": 2}
"""Dimensions of the parameters that are compressed."""
STOPS = (10, 50, 100, 200, 300)
HEADER = [
    "model, bins, steps of feedback",
    "sent",
    "a bin",
    "empty bins",
    "bits sent, index + value",
    "rate",
    "with the table",
    "in Rice code",
    "counted as the paper does",
    "paper",
    "‖residual‖ / ‖gradient‖",
    "loss",
    "uncompressed",
]


@dataclass(frozen=True)
class Step:
    """What one step sent of the layers that are compressed."""

    loss: float
    elements: int = 0
    sent: int = 0
    empty: int = 0
    bins: int = 0
    index_bytes: int = 0
    value_bytes: int = 0
    blob_bytes: int = 0
    rice_bytes: int = 0
    residual: float = 0.0


def train(model: str, bin: int | None, steps: int) -> list[Step]:
    """Every step of a training with AdaComp and feedback; without either where ``bin`` is None."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    recipe = RECIPES[model]
    net, batches = recipe.net(), recipe.batches()
    layers = [] if bin is None else [n for n, p in net.parameters.items() if p.ndim >= LEAST[model]]
    scheme = (
        "all | raw-index | raw" if bin is None else f"adacomp(bin={bin}) | binned(bin={bin}) | sign-scale"
    )
    compressor = wc.Compressor(scheme, names=False)
    done = []
    for _ in track(range(steps), f"{model}, bins of {bin}"):
        loss = net.loss(*next(batches))
        gradients = dict(
            zip(net.parameters, torch.autograd.grad(loss, list(net.parameters.values())), strict=True)
        )
        norm = torch.sqrt(sum(g.square().sum() for g in gradients.values()))
        shrink = (recipe.clip / norm).clamp(max=1)
        gradients = {name: shrink * g for name, g in gradients.items()}
        step = Step(loss.item())
        if bin is not None:
            prepared = compressor.prepare({name: gradients[name].numpy() for name in layers})
            prepared.commit()
            step = _step(compressor, prepared, {n: gradients[n].numpy() for n in layers}, bin, loss.item())
            gradients |= {name: torch.from_numpy(t.to_dense()) for name, t in prepared.sent.items()}
        done.append(step)
        with torch.no_grad():
            for name, p in net.parameters.items():
                p.sub_(gradients[name], alpha=recipe.rate)
    return done


def _step(c: wc.Compressor, prepared: wc.Prepared, gradients: dict[str, Any], bin: int, loss: float) -> Step:
    entries = wc.inspect(prepared.blob).entries
    bins = sum(-(-g.size // bin) for g in gradients.values())
    full = sum(np.unique(t.indices // bin).size for t in prepared.sent.values())
    rice = wc.encode_many(prepared.sent, "all | rice | sign-scale")
    return Step(
        loss,
        elements=sum(g.size for g in gradients.values()),
        sent=sum(e.nnz for e in entries),
        empty=bins - full,
        bins=bins,
        index_bytes=sum(e.index_bytes for e in entries),
        value_bytes=sum(e.value_bytes for e in entries),
        blob_bytes=prepared.blob.nbytes,
        rice_bytes=sum(e.index_bytes + e.value_bytes for e in wc.inspect(rice).entries),
        residual=_norm([c.residual(name) for name in gradients]) / _norm(gradients.values()),
    )


def _norm(parts: Any) -> float:
    return float(np.sqrt(sum(float(np.sum(np.square(x, dtype=np.float64))) for x in parts)))


def row(name: str, bin: int, paper: str, last: list[Step], plain: list[Step]) -> list[str]:
    """The means of some consecutive steps."""

    def mean(get: Any) -> float:
        return float(np.mean([get(step) for step in last]))

    bits = [mean(lambda s, f=f: 8 * getattr(s, f) / s.sent) for f in ("index_bytes", "value_bytes")]
    word = 8 if bin < 64 else 16
    elements, bins = last[0].elements, last[0].bins
    sent, dense = mean(lambda s: s.sent), 4 * elements
    payload = mean(lambda s: s.index_bytes + s.value_bytes)
    counted = mean(lambda s: (s.sent + s.empty) * word / 8)
    return [
        name,
        f"{sent / elements:.2%}",
        f"{sent / bins:.2f}",
        f"{mean(lambda s: s.empty / s.bins):.1%}",
        f"{bits[0]:.2f} + {bits[1]:.2f}",
        f"{dense / payload:.1f}×",
        f"{dense / mean(lambda s: s.blob_bytes):.1f}×",
        f"{dense / mean(lambda s: s.rice_bytes):.1f}×",
        f"{dense / counted:.1f}×",
        paper,
        f"{mean(lambda s: s.residual):.2f}",
        f"{mean(lambda s: s.loss):.3f}",
        f"{np.mean([step.loss for step in plain]):.3f}",
    ]


def main() -> None:
    """Train, print and keep the table."""
    parser = argparse.ArgumentParser(description="AdaComp's rate under its own feedback")
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    plain = {model: train(model, None, steps) for model in LEAST}
    stops = [n for n in STOPS if n < steps] + [steps]
    rows = []
    for model, bin, paper in RUNS:
        taken = train(model, bin, steps)
        for n in stops:
            some = slice(max(0, n - 10), n)
            name = f"{model}, {bin}, {some.start + 1}-{n}"
            rows.append(row(name, bin, paper, taken[some], plain[model][some]))
    models = "".join(f"- {model}: {RECIPES[model].about}.\n" for model in LEAST)
    text = f"""Means over ten steps, scheme `adacomp · binned · sign-scale`.

{models}- *Rate* is 4 bytes an element over the bytes of the sections; *with the table* over those of the
  whole container, whose table takes 48 a layer; *in Rice code* over those of `rice` and `sign-scale`.
- *Counted as the paper does*: 8 bits for each element sent and each empty bin, 16 with bins of 64 and more.

"""
    table = markdown(HEADER, rows)
    print(table)
    print(keep("adacomp", "AdaComp under its own feedback", text + table))


if __name__ == "__main__":
    main()
