"""Trains small real models and saves their gradients, for the other benchmarks: benchmarks/gradients/*.npy.

Each model is trained twice: plainly, where the stochastic gradient of the last step is saved (``…_raw``); and
with error feedback, where the largest 0.1 % of residual + gradient are applied and the rest is kept, and
residual + gradient of the last step are saved (``…_feedback``): what a selector sees. layers.json says which
elements belong to which parameter. Early training of small models on small tasks: real in shape (layers of
very different scale, exact zeros, heavy tails), no claim about any large model.

    python -m benchmarks.gradients [--only NAME,NAME] [--steps N] [--output FOLDER]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["main"]

FOLDER = Path(__file__).parent / "data"
DENSITY = 0.001
DEFAULT = "resnet20,lstm"
MISSING = """torch is missing. A build for the CPU is enough:
    pip install torch
`make gradients` installs one into the project's virtual environment."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, save, say where."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", default=DEFAULT, metavar="NAMES", help=f"models; {DEFAULT}, and also wide20"
    )
    parser.add_argument("--steps", type=int, metavar="N", help="of each training")
    parser.add_argument("--output", type=Path, default=FOLDER, metavar="FOLDER", help="where to")
    options = parser.parse_args(arguments)
    try:
        from benchmarks.training.recipes import RECIPES, train
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        sys.exit(MISSING)
    names = [name.strip() for name in options.only.split(",")]
    if unknown := [name for name in names if name not in RECIPES]:
        parser.error(f"no model {unknown[0]!r}; there are {', '.join(RECIPES)}")
    if options.steps is not None and options.steps < 1:
        parser.error("--steps must be 1 or more")
    options.output.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("{task.description:<44}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        for name in names:
            recipe = RECIPES[name]
            steps = options.steps or recipe.steps
            for kind, density in (("raw", None), ("feedback", DENSITY)):
                task = progress.add_task(f"{name}, {kind}", total=steps)

                def seen(loss: float, task: Any = task, label: str = f"{name}, {kind}") -> None:
                    progress.update(task, advance=1, description=f"{label}: loss {loss:.3f}")

                gradient, net = train(recipe, steps, density, seen)
                np.save(options.output / f"{name}_{kind}.npy", gradient)
            shapes = {key: list(p.shape) for key, p in net.parameters.items()}
            _describe(options.output / "layers.json", name, recipe.about, steps, shapes)
    print(f"saved in {options.output}")


def _describe(path: Path, name: str, about: str, steps: int, shapes: dict[str, list[int]]) -> None:
    """Add one model to layers.json.

    Args:
        path: of that file, which need not exist.
        name: of the model.
        about: it and its training.
        steps: taken.
        shapes: of its parameters, in order.
    """
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    starts = accumulate([int(np.prod(shape)) for shape in shapes.values()], initial=0)
    layers = [
        {"name": key, "shape": shape, "offset": start}
        for (key, shape), start in zip(shapes.items(), starts, strict=False)
    ]
    known[name] = {"about": about, "steps": steps, "feedback density": DENSITY, "layers": layers}
    path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
