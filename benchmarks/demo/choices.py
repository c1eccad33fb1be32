"""What the compressed run exchanges: the demo's own schemes, a recipe of a paper, or a budget of bits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import collectives as co
import wirecodec as wc

__all__ = ["DEFAULT", "FUSE", "SCHEMES", "Choice", "choose", "choose_budget", "choose_recipe"]

_SMALL = "all | raw-index | qsgd(bits=4)"
SCHEMES = {
    "*.bias": _SMALL,  # few elements that affect every output: send all, rounded
    "conv1.*": _SMALL,
    "dense1.weight": "topk(0.0005) | rice | qsgd(bits=4)",  # nearly all parameters
    "*": "topk(0.005) | rice | qsgd(bits=4)",
}
"""Scheme of each tensor: the first pattern that matches its name.

Measured on 4 ranks, 400 steps, 8 seeds: test accuracy, mean ± standard deviation; bytes of dense relative to
the scheme; mean step at which the training loss first falls below 0.1.

    dense                                                      97.9 ± 0.3 %      1      35
    these                                                      98.2 ± 0.6 %    480     100
    these, but values, biases and conv1 raw                    98.2 ± 0.7 %    129      96
    topk(0.001) | rice | qsgd(bits=4) for all but biases       97.9 ± 0.5 %    439     157
    topk(0.01) | rice | qsgd(bits=4), biases raw               98.3 ± 0.3 %     80      78
"""

FUSE = 65536  # elements; smaller tensors of one scheme share an entry of the container
PAPERS_EPOCH = 98
"""Steps per epoch in which the recipes give their warm-ups."""
EPOCH = 10
"""Steps per epoch of the demo: 1,300 images in batches of 128."""


@dataclass(frozen=True)
class Choice:
    """Compression of one run.

    Attributes:
        name: in the table and the picture.
        text: its settings; empty for the demo's own schemes.
        settings: as text or {pattern: scheme}, for the numbers in JSON.
        build: seed -> a Compressor or a CLTk.
        momentum: of the optimizer; None for that of the dense run.
    """

    name: str
    text: str
    settings: Any
    build: Callable[[int], wc.Compressor | co.CLTk]
    momentum: float | None = None


def _build_default(seed: int) -> wc.Compressor:
    """Build the demo's Compressor; receivers have gradients with the same names, so it sends none."""
    return wc.Compressor(SCHEMES, feedback=wc.ErrorFeedback(), seed=seed, names=False, fuse=FUSE)


DEFAULT = Choice("compressed", "", SCHEMES, _build_default)


def choose(recipe: str | None, budget: float | None) -> Choice:
    """Return the choice of two options, of which at most one is given. Raises EncodeError."""
    if recipe is not None:
        return choose_recipe(recipe)
    return DEFAULT if budget is None else choose_budget(budget)


def choose_recipe(name: str) -> Choice:
    """Return a recipe of ``wc.recipe``, with the warm-up in the demo's epochs.

    Raises:
        EncodeError: there is no such recipe, or it is not one for gradients.
    """
    found = wc.recipe(name)
    if name == "sparseloco":
        raise wc.EncodeError(
            "recipe 'sparseloco' is for co.LocalUpdates, which exchange movements of parameters every 15 to"
            " 100 steps; the demo exchanges the gradients of every step"
        )
    if isinstance(found["schedule"], wc.WarmUp):
        steps = max(1, round(found["schedule"].steps * EPOCH / PAPERS_EPOCH))
        found["schedule"] = dataclasses.replace(found["schedule"], steps=steps)
    if name == "clt-k":
        text = f"CLT-k with {found['scheme']:.1%} of the elements, beta {found['feedback'].beta:g}"
        return Choice(name, text, str(found), lambda seed: co.CLTk(**found))
    momentum = 0.0 if isinstance(found["feedback"], wc.MomentumCorrection) else None
    return Choice(
        name,
        str(found["scheme"]),
        str(found),
        lambda seed: wc.Compressor(**found, seed=seed, names=False),
        momentum,
    )


def choose_budget(bits: float) -> Choice:
    """Return a budget of bits per element and step for all tensors together. Raises EncodeError."""
    scheme = str(wc.Scheme.parse(f"budget(bits={bits!r}) | rice | error-bounded"))
    return Choice(
        f"budget {bits:g}",
        f"{scheme}, all tensors together",
        scheme,
        lambda seed: wc.Compressor(scheme, scope="group", seed=seed, names=False),
    )
