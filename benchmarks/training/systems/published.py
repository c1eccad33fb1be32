"""Published systems: the library's recipes, one Compressor per worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import wirecodec as wc
from benchmarks.training.systems.codec import CodecExchange
from benchmarks.training.systems.system import WARM_UP, Exchange, System
from benchmarks.training.tasks.task import Settings

__all__ = ["GRADIENT_RECIPES", "Published", "build_published"]

GRADIENT_RECIPES = tuple(name for name in wc.RECIPES if name not in ("clt-k", "sparseloco"))
"""Recipes for gradients with a Compressor; CLT-k and local updates have systems of their own."""


@dataclass(frozen=True)
class Published(System):
    """Recipe of a paper, with the grid's momentum if it corrects momentum; each tensor by itself.

    Args:
        recipe: its name.
        text: its settings.
    """

    recipe: str = ""
    text: str = ""

    def optimizer_settings(self, settings: Settings) -> Settings:
        """Return settings without momentum if the recipe corrects it before the exchange."""
        corrects = isinstance(wc.recipe(self.recipe)["feedback"], wc.MomentumCorrection)
        return replace(settings, momentum=0.0) if corrects else settings

    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Return an Exchange with one Compressor per worker."""
        found = _settings_of(self.recipe)
        if isinstance(found["feedback"], wc.MomentumCorrection):
            found["feedback"] = replace(found["feedback"], momentum=settings.momentum)
        if isinstance(found["schedule"], wc.WarmUp):
            found["schedule"] = replace(found["schedule"], steps=max(1, int(WARM_UP * steps)))
        compressors = [wc.Compressor(**found, names=False) for _ in range(workers)]
        return CodecExchange(compressors, whole=False)


def build_published(name: str, group: str) -> Published:
    """Build the system of a recipe."""
    return Published(name, group, name, str(_settings_of(name)))


def _settings_of(name: str) -> dict[str, Any]:
    """Return a recipe for each tensor by itself; the systems "FFT, … % left out" transform one vector."""
    settings = wc.recipe(name)
    del settings["scope"]
    return settings
