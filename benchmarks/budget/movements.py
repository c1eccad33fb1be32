"""Error over bits of what local updates send: public systems beside schemes of this library.

Each system sends some elements of a movement: of three distributions, and of a model in 30 steps of Adam.
The public systems are written here from their code, with the bits that their messages have.

    python -m benchmarks.budget.movements

Needs torch: ``pip install torch``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import collectives as co
import wirecodec as wc
from benchmarks.common.command import create_parser, create_progress
from benchmarks.common.results import RESULTS, format_markdown, write_result
from benchmarks.common.tables import write_rows

__all__ = ["PUBLIC", "SCHEMES", "Row", "main", "measure"]

Array = Any
SIDE, SENT, DEMO_SENT = 64, 64, 32
"""Sides of a block; elements that SparseLoCo sends of each, and DeMo and DisTrO."""
SHAPE = (1024, 1024)
BEFORE, STEPS, RATE = 150, 30, 8e-3
"""Steps of the model before the movement and of the movement, and the highest learning rate."""

SCHEMES = (
    "chunk-topk(0.015625, 4096) | rice | error-bounded(0.15)",
    "chunk-topk(0.015625, 4096) | rice | sign-scale",
    "chunk-topk(0.015625, 4096) | rice | qsgd(bits=2, bucket=64)",
    "budget(bits=0.219) | rice | error-bounded",
    "budget(bits=0.14) | rice | error-bounded",
    "budget(bits=0.073) | rice | error-bounded",
    "all | raw-index | offset-float(bits=4, mantissa=0)",
    "all | raw-index | error-bounded(0.2)",
    "all | raw-index | error-bounded(0.3)",
)
BUDGET = 4
"""Place of the scheme that the page begins with."""
EXPONENTS, BINS, RANGE = 7, 4, 6
"""Exponents of E3M0 beside zero; bins of MuLoCo's values, and standard deviations that they cover."""
HEADER = ["system", "bits per element", "sent", "bits per sent element", "squared error, relative"]
VALUES = """Of independent values, [independent.csv](movements/independent.csv) has bits per element and
squared error. Public systems send the same share as in *Movement* below.
"""
RECIPES = """The first message of each of `co.LOCAL_RECIPES`, of all matrices of *Movement*.
"""
RECIPES_HEADER = [
    "recipe",
    "steps per exchange",
    "bits per element",
    "bits per element and step",
    "squared error, relative",
]
ABOUT = """At 0.14 bits per element, `budget` leaves {ours:.2f} of the movement's square, and Templar's
messages of {bits:.2f} bits leave {templar:.2f}. The cosine transform of DeMo and Psyche does not concentrate
movements: the largest {demo} of 4,096 coefficients leave {cosine:.2f}.

*Bits* are those of whole messages. *Squared error* is that of the decoded movement, relative to its square:
1 is that of sending nothing. Error feedback sends later what is missing.

- *Templar*, the public code of SparseLoCo (arXiv 2508.15706): the largest 64 of each block of 64 × 64, each
  as a place of 12 bits and a value of 2.
- *DeMo* (arXiv 2411.19870): the largest {demo} coefficients of a discrete cosine transform of each block of
  64 × 64, as int64 and float32.
- *Psyche*: the same as a place of 16 bits and a sign, here of the mean of the block's largest coefficients;
  Psyche's optimizer takes a step of its own size.
- *Streaming DiLoCo* (arXiv 2501.18512): a sign and one of {exponents} powers of two, or zero, of every
  element. The paper names no exponent bias; here the largest exponent of a matrix is the highest.
- *MuLoCo*, the public code (arXiv 2505.23725): every element as one of {bins} bins of its row; their means
  are not counted.
- *Movement*: the matrices of text-lstm's model in {steps} steps of Adam, after {before}.
"""


@dataclass(frozen=True)
class Row:
    """What a system makes of a movement.

    Attributes:
        system: name.
        bits: per element.
        sent: fraction of the elements, or of coefficients.
        error: squared, relative.
    """

    system: str
    bits: float
    sent: float
    error: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the page."""
    create_parser(__doc__, __package__).parse_args(arguments)
    sources, found = draw_movements(), {}
    with create_progress() as progress:
        task = progress.add_task("movement of a model", total=len(sources) + 2)
        sources["Movement"] = train_movement()
        for name, tensors in sources.items():
            progress.update(task, description=name, advance=1)
            found[name] = measure(tensors)
        recipes = measure_recipes(sources["Movement"])
        progress.advance(task)
    text = f"{format_page(found)}\n{format_recipes(recipes)}"
    print(text)
    print(write_result("movements", "Error over bits of movements", text))
    write_rows(RESULTS / "movements" / "independent.csv", list_drawn(found))


def format_page(found: Mapping[str, Sequence[Row]]) -> str:
    """Format the page from the rows of each source; the last one is the model's movement."""
    templar, demo, _, *ours = list(found.values())[-1]
    chosen = next(row for row in ours if row.system == SCHEMES[BUDGET])
    about = ABOUT.format(
        ours=chosen.error,
        bits=templar.bits,
        templar=templar.error,
        cosine=demo.error,
        demo=DEMO_SENT,
        steps=STEPS,
        before=BEFORE,
        exponents=EXPONENTS,
        bins=BINS,
    )
    *drawn, (last, moved) = found.items()
    parts = [about, VALUES] if drawn else [about]
    return "\n".join([*parts, _format_source(last, moved)])


@dataclass(frozen=True)
class Drawn:
    """Bits per element and squared error of independent values, as a row of a data file."""

    values: str
    system: str
    bits: float
    error: float


def list_drawn(found: Mapping[str, Sequence[Row]]) -> list[Drawn]:
    """List the rows of all sources but the last one, the model's movement, for a data file."""
    *drawn, _ = found.items()
    return [Drawn(name, row.system, row.bits, row.error) for name, rows in drawn for row in rows]


def _format_system(name: str) -> str:
    return f"`{name.replace(' | ', ' · ')}`" if " | " in name else name


def format_recipes(rows: Mapping[str, Row]) -> str:
    """Format the table of the recipes of local updates, on the model's movement."""
    lines = []
    for name, row in rows.items():
        every = co.LOCAL_RECIPES[name].settings["every"]
        figures = f"{row.bits:.3f}", f"{row.bits / every:.3g}", f"{row.error:.3f}"
        lines.append([f"`{name}`", str(every), *figures])
    return f"## Recipes of local updates\n\n{RECIPES}\n{format_markdown(RECIPES_HEADER, lines)}"


def _format_source(name: str, rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        each = row.bits / row.sent
        lines.append(
            [
                _format_system(row.system),
                f"{row.bits:.3f}",
                f"{row.sent:.2%}",
                f"{each:.1f}",
                f"{row.error:.3f}",
            ]
        )
    return f"## {name}\n\n{format_markdown(HEADER, lines)}"


def draw_movements() -> dict[str, dict[str, Array]]:
    """Return matrices of independent values of three distributions."""
    rng = np.random.default_rng(0)
    drawn = {
        "Gauss": rng.normal(size=SHAPE),
        "Laplace": rng.laplace(size=SHAPE),
        "Student t, 3 degrees of freedom": rng.standard_t(3, size=SHAPE),
    }
    return {name: {"x": x.astype(np.float32)} for name, x in drawn.items()}


def train_movement() -> dict[str, Array]:
    """Return how far the matrices of a worker's model move in an exchange's steps."""
    import torch

    from benchmarks.training.tasks.registry import TASKS
    from benchmarks.training.train import build_optimizer, compute_gradients, compute_rate

    torch.set_num_threads(1)
    task = TASKS["text-lstm"]
    problem: Any = task.build(0)
    parameters = dict(problem.model.named_parameters())
    optimizer = build_optimizer(task, parameters.values(), task.grid[-1])
    for step in range(BEFORE + STEPS):
        if step == BEFORE:
            start = {name: p.detach().clone() for name, p in parameters.items()}
        gradients, _ = compute_gradients(problem, parameters, step, 0, task.clip)
        for name, p in parameters.items():
            p.grad = gradients[name]
        optimizer.param_groups[0]["lr"] = compute_rate(task, RATE, step, task.steps)
        optimizer.step()
    moved = {name: (start[name] - p.detach()).numpy() for name, p in parameters.items()}
    return {name: x for name, x in moved.items() if x.ndim == 2}


def measure(tensors: Mapping[str, Array]) -> list[Row]:
    """Return a row per system: public ones per tensor, ours on all tensors as one vector."""
    total, square = sum(x.size for x in tensors.values()), _sum_squares(tensors.values())
    rows = []
    for name, (bits, send) in PUBLIC.items():
        received = {key: send(x) for key, x in tensors.items()}
        error = _sum_squares(x - received[key][0] for key, x in tensors.items())
        count = sum(sent for _, sent in received.values())
        rows.append(Row(name, bits * count / total, count / total, error / square))
    vector = np.concatenate([x.reshape(-1) for x in tensors.values()])
    for scheme in SCHEMES:
        blob = wc.encode(vector, scheme)
        decoded: Any = wc.decode(blob)
        error = _sum_squares([vector - decoded.to_dense()])
        rows.append(Row(scheme, 8 * len(blob) / total, decoded.nnz / total, error / square))
    return rows


def measure_recipes(tensors: Mapping[str, Array]) -> dict[str, Row]:
    """Return a row per recipe of local updates, of the first message that it sends."""
    total, square = sum(x.size for x in tensors.values()), _sum_squares(tensors.values())
    rows = {}
    for name in co.LOCAL_RECIPES:
        blob = co.local_recipe(name)["compressor"].compress(tensors)
        decoded: Any = wc.decode_many(blob)
        error = _sum_squares(x - decoded[key].to_dense() for key, x in tensors.items())
        sent = sum(one.nnz for one in decoded.values())
        rows[name] = Row(name, 8 * len(blob) / total, sent / total, error / square)
    return rows


def _sum_squares(arrays: Iterable[Array]) -> float:
    return sum(float(np.square(x, dtype=np.float64).sum()) for x in arrays)


def _send_as_templar(x: Array) -> tuple[Array, int]:
    import torch

    from benchmarks.training.systems.sparseloco import from_blocks, quantise, to_blocks

    blocks = to_blocks(torch.from_numpy(x))
    places = blocks.abs().topk(min(SENT, blocks.shape[1]), dim=1).indices
    sent = torch.zeros_like(blocks).scatter_(1, places, quantise(blocks.gather(1, places)))
    return from_blocks(sent, x.shape).numpy(), places.numel()


def _send_coefficients(x: Array, *, signs: bool) -> tuple[Array, int]:
    """Send the largest coefficients of each block, as they are or as signs of their mean size."""
    blocks, back = _transform(x)
    count = min(DEMO_SENT, blocks.shape[1])
    places = np.argpartition(-np.abs(blocks), count - 1, axis=1)[:, :count]
    values = np.take_along_axis(blocks, places, axis=1)
    if signs:
        values = np.sign(values) * np.abs(values).mean(axis=1, keepdims=True)
    sent = np.zeros_like(blocks)
    np.put_along_axis(sent, places, values, axis=1)
    return back(sent), places.size


def _send_powers(x: Array) -> tuple[Array, int]:
    """Send the nearest power of two, of the exponents below the largest; smaller elements become zero."""
    fraction, exponent = np.frexp(np.abs(x))
    exponent -= fraction < 0.75
    least = exponent[x != 0].max() - EXPONENTS + 1
    sent = np.sign(x) * np.ldexp(np.float32(1), np.maximum(exponent, least))
    return np.where(np.abs(x) < 2.0 ** (least - 1), np.float32(0), sent), x.size


def _send_bins(x: Array) -> tuple[Array, int]:
    """Send the means of bins of each row, which are parts of its standard deviation wide."""
    centred = x - x.mean(axis=1, keepdims=True)
    width = RANGE * centred.std(axis=1, ddof=1, keepdims=True) / BINS
    places = np.clip(np.rint(centred / width) + BINS // 2, 0, BINS - 1)
    sent = np.zeros_like(x)
    for place in range(BINS):
        inside = places == place
        means = (x * inside).sum(axis=1, keepdims=True) / np.maximum(inside.sum(axis=1, keepdims=True), 1)
        sent += inside * means
    return sent, x.size


def _transform(x: Array) -> tuple[Array, Callable[[Array], Array]]:
    """Return the coefficients of the blocks (n, elements), and the function that goes back."""
    import torch

    from benchmarks.training.systems.sparseloco import find_side, from_blocks, to_blocks

    sides = [find_side(size) for size in x.shape] if x.ndim == 2 else [1, find_side(x.size)]
    rows, columns = map(_build_basis, sides)
    blocks = to_blocks(torch.from_numpy(x)).numpy().reshape(-1, *sides)
    coefficients = rows @ blocks @ columns.T

    def back(sent: Array) -> Array:
        blocks = rows.T @ sent.reshape(-1, *sides) @ columns
        return from_blocks(torch.from_numpy(blocks.reshape(len(blocks), -1)), x.shape).numpy()

    return coefficients.reshape(len(coefficients), -1), back


@cache
def _build_basis(size: int) -> Array:
    """Return the orthonormal matrix of the discrete cosine transform II."""
    from scipy.fft import dct

    return dct(np.eye(size), type=2, norm="ortho", axis=0)


PUBLIC: Mapping[str, tuple[int, Callable[[Array], tuple[Array, int]]]] = {
    "Templar: 12-bit place, 2-bit value": (14, _send_as_templar),
    "DeMo: int64 place, float32 coefficient": (96, lambda x: _send_coefficients(x, signs=False)),
    "Psyche: 16-bit place, sign": (17, lambda x: _send_coefficients(x, signs=True)),
    "Streaming DiLoCo: E3M0": (4, _send_powers),
    "MuLoCo: 4 bins per row": (2, _send_bins),
}
"""{system: (bits of one element, function that returns what arrives and the number of elements)}."""


if __name__ == "__main__":
    main()
