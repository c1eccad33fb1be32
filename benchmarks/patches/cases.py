"""Pairs of states: before and after some steps of training, made here or read from a folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import ml_dtypes
import numpy as np

from benchmarks.common.store import ResultStore
from wirecodec.arrays import UNSIGNED, Array

__all__ = ["Case", "plan_cases", "plan_folder", "quantize"]

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


State = TypeVar("State")


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


def plan_cases(step: Callable[[str], None], cache: Path = CACHE) -> dict[str, Callable[[], Case]]:
    """Return {name: function that makes the pair}. The first call of a function trains its states.

    Args:
        step: called with a description of each step of training.
        cache: folder that keeps the states, so that a second run reads them.
    """
    plan: dict[str, Callable[[], Case]] = {
        _describe(rate, span): partial(_make_reinforced, rate, span, step, cache)
        for rate in RATES
        for span in SPANS
    }
    plan |= {_describe_codes(rate): partial(_make_codes, rate, step, cache) for rate in RATES}
    plan[TUNED] = partial(_make_tuned, step, cache)
    table = make_table()
    plan[table.name] = lambda: table
    return plan


def _make_reinforced(rate: float, span: int, step: Callable[[str], None], cache: Path) -> Case:
    run = _reinforce(rate, step, cache)
    return Case(_describe(rate, span), run[SETTLED], run[SETTLED + span])


def _make_codes(rate: float, step: Callable[[str], None], cache: Path) -> Case:
    run = _reinforce(rate, step, cache)
    return Case(_describe_codes(rate), quantize(run[SETTLED]), quantize(run[SETTLED + SPANS[0]]))


def _make_tuned(step: Callable[[str], None], cache: Path) -> Case:
    from benchmarks.patches import training

    plan, masters = training.Plan(), _pretrain(step, cache)
    train = partial(training.fine_tune, masters, plan, FINE_TUNING_RATE, FINE_TUNING_STEPS, step)
    before = {name: x.astype(BFLOAT16) for name, x in masters.items()}
    return Case(TUNED, before, _keep("tuned", cache, train))


def _reinforce(rate: float, step: Callable[[str], None], cache: Path) -> dict[int, dict[str, Array]]:
    """Return {step: state} of the training at a rate."""
    from benchmarks.patches import training

    kept = [SETTLED, *(SETTLED + span for span in SPANS)]
    masters = _pretrain(step, cache)
    return _keep(f"{rate:g}", cache, partial(training.reinforce, masters, training.Plan(), rate, kept, step))


def _pretrain(step: Callable[[str], None], cache: Path) -> dict[str, Array]:
    from benchmarks.patches import training

    return _keep("masters", cache, partial(training.pretrain, training.Plan(), step))


def _keep(name: str, cache: Path, make: Callable[[], State]) -> State:
    """Return what the cache keeps under a name, or make it."""
    from benchmarks.patches import training

    settings = repr((training.Plan(), RATES, SETTLED, SPANS, FINE_TUNING_RATE, FINE_TUNING_STEPS))
    store = ResultStore(settings, cache, SOURCES)
    if name not in store:
        store.save(name, make())
    found: State = store[name]
    return found


def _describe(rate: float, span: int) -> str:
    return f"{span} step{'s' if span > 1 else ''} at {_number(rate)}"


def _describe_codes(rate: float) -> str:
    return f"{_describe(rate, SPANS[0])}, fp8 codes"


def _number(rate: float) -> str:
    """Format a rate of one digit: 1e-6."""
    return f"{rate:.0e}".replace("e-0", "e-")


TUNED = f"fine-tuning, {FINE_TUNING_STEPS} steps at {_number(FINE_TUNING_RATE)}"


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


def plan_folder(folder: Path) -> dict[str, Callable[[], Case]]:
    """Return {name: function that reads a pair} of ``NAME_030.npz``, ``NAME_031_xor_030.npz`` in a folder.

    Args:
        folder: each file has one array per tensor, bfloat16 as int16 bits; the second has the XOR of both.
    """
    found: dict[str, Callable[[], Case]] = {}
    for path in sorted(folder.glob("*_xor_*.npz")):
        match = re.fullmatch(r"(.+)_(\d+)_xor_(\d+)", path.stem)
        if match is not None:
            run, after, before = match.groups()
            name = f"{run}, {int(before)} to {int(after)}"
            found[name] = partial(_load, name, folder / f"{run}_{before}.npz", path)
    return found


def _load(name: str, base: Path, changes: Path) -> Case:
    """Read a state and its XOR with the next one."""
    with np.load(base) as before, np.load(changes) as xor:
        old = {tensor: before[tensor] for tensor in before.files}
        new = {tensor: x ^ xor[tensor] for tensor, x in old.items()}
    return Case(name, *({tensor: x.view(BFLOAT16) for tensor, x in state.items()} for state in (old, new)))
