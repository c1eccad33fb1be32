"""Pairs of states: before and after some steps of training, made here or read from a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.common.store import ResultStore
from wirecodec.arrays import UNSIGNED, Array

__all__ = ["Case", "load_folder", "make_cases", "quantize"]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
BLOCK = 128
"""Rows and columns of a block of codes that share a scale."""
RATES = (1e-6, 3e-6)
SETTLED = 30
"""Step from which changes are counted: before, Adam's moments have not settled, and more weights change."""
SPANS = (1, 8, 32)
FINE_TUNING_RATE, FINE_TUNING_STEPS = 1e-4, 40
CACHE = Path(__file__).parent / ".states"
SOURCES = (Path(__file__).with_name("training.py"),)


@dataclass(frozen=True, eq=False)
class Case:
    """State before, and state after.

    Attributes:
        name: what happened between them.
        old, new: {name: array} of equal names, shapes and types.
    """

    name: str
    old: dict[str, Array]
    new: dict[str, Array]

    @property
    def bytes(self) -> int:
        """Bytes of a whole state."""
        return sum(x.nbytes for x in self.old.values())

    @property
    def elements(self) -> int:
        """Elements of a state."""
        return sum(x.size for x in self.old.values())

    def count_changed(self) -> int:
        """Count the elements whose bits differ."""
        return sum(int(np.count_nonzero(bits(x) != bits(self.new[name]))) for name, x in self.old.items())


def bits(x: Array) -> Array:
    """View a contiguous array as (size,) unsigned integers."""
    return x.reshape(-1).view(UNSIGNED[x.dtype.itemsize])


def make_cases(step: Callable[[str], None], cache: Path = CACHE) -> Iterator[Case]:
    """Train, and return the pairs. The states are kept in a folder, so that a second run reads them.

    Args:
        step: called with a description of each step of training.
        cache: folder of the states.
    """
    from benchmarks.patches import training

    plan = training.Plan()
    settings = repr((plan, RATES, SETTLED, SPANS, FINE_TUNING_RATE, FINE_TUNING_STEPS))
    store = ResultStore(settings, cache, SOURCES)

    def get(name: str, make: Callable[[], Any]) -> Any:
        if name not in store:
            store.save(name, make())
        return store[name]

    masters: dict[str, Array] = get("masters", lambda: training.pretrain(plan, step))
    kept = [SETTLED, *(SETTLED + span for span in SPANS)]
    for rate in RATES:
        train = partial(training.reinforce, masters, plan, rate, kept, step)
        run: dict[int, dict[str, Array]] = get(f"{rate:g}", train)
        for span in SPANS:
            yield Case(_describe(rate, span), run[SETTLED], run[SETTLED + span])
        yield Case(
            f"{_describe(rate, 1)}, fp8 codes", quantize(run[SETTLED]), quantize(run[SETTLED + SPANS[0]])
        )
    tuned: dict[str, Array] = get(
        "tuned", lambda: training.fine_tune(masters, plan, FINE_TUNING_RATE, FINE_TUNING_STEPS, step)
    )
    before = {name: x.astype(BFLOAT16) for name, x in masters.items()}
    yield Case(f"fine-tuning, {FINE_TUNING_STEPS} steps at {_number(FINE_TUNING_RATE)}", before, tuned)
    yield make_table()


def _describe(rate: float, span: int) -> str:
    return f"{span} step{'s' if span > 1 else ''} at {_number(rate)}"


def _number(rate: float) -> str:
    """Format a rate of one digit: 1e-6."""
    return f"{rate:.0e}".replace("e-0", "e-")


def quantize(state: dict[str, Array]) -> dict[str, Array]:
    """Quantize the matrices of a state to fp8 codes and one float32 scale per block.

    Norms, embeddings and the head, which servers keep in bfloat16, are left out.
    """
    found: dict[str, Array] = {}
    for name, x in state.items():
        if x.ndim == 2 and not name.startswith(("embedding", "position", "head")):
            found[name], found[f"{name}_scale"] = _quantize_matrix(x.astype(np.float32))
    return found


def _quantize_matrix(x: Array) -> tuple[Array, Array]:
    """Return the codes of (rows, columns) float32 and the scales of its blocks."""
    rows, columns = (-(-n // BLOCK) for n in x.shape)
    padded = np.zeros((rows * BLOCK, columns * BLOCK), np.float32)
    padded[: x.shape[0], : x.shape[1]] = x
    blocks = padded.reshape(rows, BLOCK, columns, BLOCK)
    scales = np.abs(blocks).max(axis=(1, 3)) / np.float32(ml_dtypes.finfo(FP8).max)
    scales = np.where(scales == 0, np.float32(1), scales).astype(np.float32)
    codes = (blocks / scales[:, None, :, None]).astype(FP8).reshape(padded.shape)
    return np.ascontiguousarray(codes[: x.shape[0], : x.shape[1]]), scales


def make_table(rows: int = 100_000, columns: int = 64, draws: int = 2_048) -> Case:
    """Make a bfloat16 table of embeddings whose popular rows receive a step of Adam at 1e-3.

    It is simulated: rows are drawn by Zipf's law, and each element of a row moves by up to the rate.
    """
    random = np.random.default_rng(4)
    old = random.normal(0, 0.05, (rows, columns)).astype(np.float32)
    chances = 1 / np.arange(1, rows + 1)
    drawn = np.unique(random.choice(rows, draws, p=chances / chances.sum()))
    new = old.copy()
    new[drawn] += 1e-3 * np.clip(random.normal(0, 0.5, (drawn.size, columns)), -1, 1).astype(np.float32)
    share = 100 * drawn.size / rows
    before, after = ({"table": x.astype(BFLOAT16)} for x in (old, new))
    return Case(f"table of embeddings, {share:.1f} % of the rows", before, after)


def load_folder(folder: Path) -> Iterator[Case]:
    """Read pairs from a folder of ``NAME_030.npz`` and ``NAME_031_xor_030.npz`` (bfloat16 as int16 bits).

    Args:
        folder: each file has one array per tensor; the second one has the XOR of both states.
    """
    for path in sorted(folder.glob("*_xor_*.npz")):
        match = re.fullmatch(r"(.+)_(\d+)_xor_(\d+)", path.stem)
        if match is None:
            continue
        run, after, before = match.groups()
        with np.load(folder / f"{run}_{before}.npz") as base, np.load(path) as changes:
            old = {name: base[name] for name in base.files}
            new = {name: x ^ changes[name] for name, x in old.items()}
        old, new = ({name: x.view(BFLOAT16) for name, x in state.items()} for state in (old, new))
        yield Case(f"{run}, {int(before)} to {int(after)}", old, new)
