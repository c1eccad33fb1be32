"""Train small models and save their gradients in benchmarks/gradients/data, for the other benchmarks.

Each model is trained twice. The first run applies dense gradients and saves the gradient of the last step
(``…_raw.npy``). The second run uses error feedback: it applies the largest 0.1 % of residual + gradient,
keeps the rest, and saves residual + gradient of the last step (``…_feedback.npy``), which is the input of a
selector. layers.json maps elements to parameters. These are early steps of small models on small tasks. Their
shape is real (layers of very different scale, exact zeros, heavy tails), but they do not represent large
models.

    python -m benchmarks.gradients [--only "NAME; NAME"] [--steps N] [--output FOLDER]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.command import choose_names, create_parser, create_progress
from benchmarks.common.inputs import TRAINED_GRADIENTS

__all__ = ["main"]

DENSITY = 0.001
DEFAULT = "resnet20; lstm"
MISSING = """torch is missing. A CPU build is sufficient:
    pip install torch
`make gradients` installs it into the project's virtual environment."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the models, save their gradients, and print the folder."""
    parser = create_parser(__doc__, __package__)
    parser.add_argument(
        "--only",
        default=DEFAULT,
        metavar="NAMES",
        help="resnet20, lstm or wide20; several are separated by ; (default: %(default)s)",
    )
    parser.add_argument("--steps", type=int, metavar="N", help="steps of each training run")
    parser.add_argument(
        "--output", type=Path, default=TRAINED_GRADIENTS, metavar="FOLDER", help="output folder"
    )
    options = parser.parse_args(arguments)
    try:
        from benchmarks.training.recipes import RECIPES, train
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        sys.exit(MISSING)
    names = choose_names(options.only, RECIPES)
    if options.steps is not None and options.steps < 1:
        parser.error(f"--steps is {options.steps}; it must be 1 or more")
    options.output.mkdir(parents=True, exist_ok=True)
    with create_progress() as progress:
        for name in names:
            recipe = RECIPES[name]
            steps = options.steps or recipe.steps
            for kind, density in (("raw", None), ("feedback", DENSITY)):
                task = progress.add_task(f"{name}, {kind}", total=steps)

                def on_step(loss: float, task: Any = task, label: str = f"{name}, {kind}") -> None:
                    progress.update(task, advance=1, description=f"{label}: loss {loss:.3f}")

                gradient, net = train(recipe, steps, density, on_step)
                np.save(options.output / f"{name}_{kind}.npy", gradient)
            shapes = {key: list(p.shape) for key, p in net.parameters.items()}
            _write_layers(options.output / "layers.json", name, recipe.about, steps, shapes)
    print(f"saved in {options.output}")


def _write_layers(path: Path, name: str, about: str, steps: int, shapes: dict[str, list[int]]) -> None:
    """Add one model to layers.json.

    Args:
        path: path of that file, which may not exist.
        name: name of the model.
        about: description of the model and its training.
        steps: number of training steps.
        shapes: shapes of its parameters, in order.
    """
    models = json.loads(path.read_text("utf-8")) if path.exists() else {}
    offsets = accumulate([int(np.prod(shape)) for shape in shapes.values()], initial=0)
    layers = [
        {"name": key, "shape": shape, "offset": offset}
        for (key, shape), offset in zip(shapes.items(), offsets, strict=False)
    ]
    models[name] = {"about": about, "steps": steps, "feedback density": DENSITY, "layers": layers}
    path.write_text(json.dumps(models, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
