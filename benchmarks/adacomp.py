"""What does AdaComp compress a convolutional net's gradients to, once its own feedback has run for a while?

ResNet-20 learns the scikit-learn digits, blown up to coloured 16 × 16 images. Its convolutions go through
``adacomp`` with bins of 50 and, again, of 500, each layer by itself and with residuals of its own; the small
tensors go as they are and do not count. Rates without 50 steps of feedback mean nothing: a first gradient has
no residual, and AdaComp sends a large part of it.

    python -m benchmarks.adacomp [--steps N] [--bins 50 500]

needs torch and scikit-learn: ``pip install torch scikit-learn``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import track

import wirecodec as wc
from benchmarks.measure import keep, markdown

try:
    import torch
    from sklearn.datasets import load_digits
    from torch import nn
except ImportError:
    sys.exit("this benchmark trains a net: pip install torch scikit-learn")

SIDE = 16
"""Pixels of an image's side."""
PAPER = {50: "40×", 500: "200×"}
"""AdaComp, table 2: convolutions with bins of 50; fully connected and recurrent layers with bins of 500."""
HEADER = [
    "bins, steps of feedback",
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
]


class Block(nn.Module):  # type: ignore[misc]
    """Two 3 × 3 convolutions around a shortcut that pads channels with zeros."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outside)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outside)
        self.stride, self.added = stride, outside - inside

    def forward(self, x: Any) -> Any:
        """Images in, smaller ones out."""
        y = self.second_norm(self.second(nn.functional.relu(self.first_norm(self.first(x)))))
        left = self.added // 2
        short = nn.functional.pad(
            x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, left, self.added - left)
        )
        return nn.functional.relu(y + short)


def resnet20() -> nn.Module:
    """ResNet-20 for ten classes: 19 convolutions, one fully connected layer, 272 thousand parameters."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    inside = 16
    for outside in (16, 32, 64):
        for n in range(3):
            layers.append(Block(inside, outside, 2 if n == 0 and outside > 16 else 1))
            inside = outside
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
    return net


def batches(size: int) -> Iterator[tuple[Any, Any]]:
    """Endless batches: digits turned, scaled and moved, bright on dark, with noise."""
    digits = load_digits()
    images, labels = (
        torch.tensor(digits.images / 16, dtype=torch.float32)[:, None],
        torch.tensor(digits.target),
    )
    g = torch.Generator().manual_seed(1)
    while True:
        which = torch.randint(0, len(labels), (size,), generator=g)
        angle = 0.8 * (torch.rand(size, generator=g) - 0.5)
        zoom = 0.6 + 0.4 * torch.rand(size, generator=g)
        move = 0.5 * (torch.rand(size, 2, generator=g) - 0.5)
        turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], 1).view(-1, 2, 2)
        affine = torch.cat([turn / zoom.view(-1, 1, 1), move[:, :, None]], 2)
        grid = nn.functional.affine_grid(affine, [size, 1, SIDE, SIDE], align_corners=False)
        ink = nn.functional.grid_sample(images[which], grid, align_corners=False)
        dark = 0.4 * torch.rand(size, 3, 1, 1, generator=g)
        bright = 1 - 0.4 * torch.rand(size, 3, 1, 1, generator=g)
        noise = 0.05 * torch.randn(size, 3, SIDE, SIDE, generator=g)
        yield (ink * bright + (1 - ink) * dark + noise - 0.5) / 0.25, labels[which]


@dataclass
class Step:
    """What one step sent of the convolutions."""

    loss: float
    sent: int = 0
    empty: int = 0
    bins: int = 0
    index_bytes: int = 0
    value_bytes: int = 0
    blob_bytes: int = 0
    rice_bytes: int = 0
    residual: float = 0.0


def scheme_of(bin: int) -> wc.Scheme:
    """AdaComp in its own wire form, or in Rice code where this version has no ``binned``."""
    try:
        return wc.Scheme.parse(f"adacomp(bin={bin}) | binned(bin={bin}) | sign-scale")
    except wc.EncodeError:
        return wc.Scheme.parse(f"adacomp(bin={bin}) | rice | sign-scale")


def train(bin: int, steps: int, batch: int = 64, rate: float = 0.1) -> tuple[list[Step], int]:
    """Every step of a training with feedback, and how many elements the convolutions have.

    Args:
        bin: elements of a bin, or 0 to send everything.
        steps: how many.
        batch: images a step.
        rate: the learning rate.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = resnet20()
    convolutions = {name: p for name, p in net.named_parameters() if p.ndim == 4}
    compressor = wc.Compressor(scheme_of(bin) if bin else None, names=False)
    source = batches(batch)
    done = []
    for _ in track(range(steps), f"bins of {bin}"):
        x, y = next(source)
        net.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        sent: Any = {}
        if bin:
            gradients = {name: p.grad.numpy() for name, p in convolutions.items()}
            prepared = compressor.prepare(gradients)
            prepared.commit()
            sent = prepared.sent
            done.append(_step(compressor, prepared, gradients, bin, float(loss.detach())))
        else:
            done.append(Step(float(loss.detach())))
        with torch.no_grad():
            for name, p in net.named_parameters():
                step = torch.from_numpy(sent[name].to_dense()) if name in sent else p.grad
                p.sub_(rate * step)
    return done, sum(p.numel() for p in convolutions.values())


def _step(c: wc.Compressor, prepared: wc.Prepared, gradients: dict[str, Any], bin: int, loss: float) -> Step:
    entries = wc.inspect(prepared.blob).entries
    bins = sum(-(-g.size // bin) for g in gradients.values())
    full = sum(np.unique(t.indices // bin).size for t in prepared.sent.values())
    rice = wc.encode_many(prepared.sent, "all | rice | sign-scale")
    residuals = [c.residual(name) for name in gradients]
    return Step(
        loss,
        sum(e.nnz for e in entries),
        bins - full,
        bins,
        sum(e.index_bytes for e in entries),
        sum(e.value_bytes for e in entries),
        prepared.blob.nbytes,
        sum(e.index_bytes + e.value_bytes for e in wc.inspect(rice).entries),
        _norm(residuals) / _norm(gradients.values()),
    )


def _norm(parts: Any) -> float:
    return float(np.sqrt(sum(float(np.sum(np.square(x, dtype=np.float64))) for x in parts)))


def row(bin: int, until: int, last: list[Step], elements: int) -> list[str]:
    """The means of some consecutive steps."""

    def mean(get: Any) -> float:
        return float(np.mean([get(step) for step in last]))

    bits = [(mean(lambda s, f=f: 8 * getattr(s, f) / s.sent)) for f in ("index_bytes", "value_bytes")]
    word = 8 if bin < 64 else 16
    sent, dense = mean(lambda s: s.sent), 4 * elements
    payload = mean(lambda s: s.index_bytes + s.value_bytes)
    counted = mean(lambda s: (s.sent + s.empty) * word / 8)
    return [
        f"{bin}, {until - len(last) + 1}-{until}",
        f"{sent / elements:.2%}",
        f"{sent / last[0].bins:.2f}",
        f"{mean(lambda s: s.empty / s.bins):.1%}",
        f"{bits[0]:.2f} + {bits[1]:.2f}",
        f"{dense / payload:.1f}×",
        f"{dense / mean(lambda s: s.blob_bytes):.1f}×",
        f"{dense / mean(lambda s: s.rice_bytes):.1f}×",
        f"{dense / counted:.1f}×",
        PAPER.get(bin, ""),
        f"{mean(lambda s: s.residual):.2f}",
        f"{mean(lambda s: s.loss):.3f}",
    ]


def main() -> None:
    """Train, print and keep the table."""
    parser = argparse.ArgumentParser(description="AdaComp's rate under its own feedback")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--bins", type=int, nargs="+", default=[50, 500])
    given = parser.parse_args()
    rows, schemes = [], []
    for bin in given.bins:
        steps, elements = train(bin, given.steps)
        schemes.append(f"`{scheme_of(bin)}`")
        stops = [n for n in (10, 50, 100, 200, 400, 800) if n < given.steps] + [given.steps]
        rows += [row(bin, n, steps[max(0, n - 10) : n], elements) for n in stops]
    plain, _ = train(0, given.steps)
    losses = [float(np.mean([s.loss for s in plain[max(0, n - 10) : n]])) for n in stops]
    text = f"""ResNet-20, {elements:,} elements in 19 convolutions, batches of 64, learning rate 0.1; means
over ten steps. Schemes: {", ".join(schemes).replace("|", "·")}.

- *Rate* is 4 bytes an element over the bytes of the sections; *with the table* over those of the whole
  container, whose table takes 48 a layer; *in Rice code* over those of `rice` and `sign-scale`.
- *Counted as the paper does*: 8 bits for each element sent and each empty bin, 16 with bins of 64 and more.
- The paper's 40× are of convolutions with bins of 50, its 200× of other layers with bins of 500.
- Without compression the losses are {", ".join(f"{loss:.3f}" for loss in losses)}.

"""
    table = markdown(HEADER, rows)
    print(table)
    print(keep("adacomp", "AdaComp under its own feedback", text + table))


if __name__ == "__main__":
    main()
