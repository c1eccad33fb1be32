"""Recipes: the settings of published systems from end to end, as arguments of a Compressor.

    wc.Compressor(**wc.recipe("dgc", ratio=0.001))

A recipe has the scheme of the preset with its name, and feedback, schedule, clipping and scope of its paper.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from wirecodec.errors import EncodeError
from wirecodec.registry import suggestion
from wirecodec.settings.feedback import ErrorFeedback, Feedback, MomentumCorrection
from wirecodec.settings.presets import PRESETS, override
from wirecodec.settings.rules import Rule
from wirecodec.settings.schedule import WarmUp
from wirecodec.settings.scheme import Scheme

AS_DENSE = "as in dense training"
LESS = "less than in dense training; the paper: the same"
"""For error feedback at 1 % and less, which is a momentum of its own."""


@dataclass(frozen=True)
class Recipe:
    """Settings of a published system.

    Attributes:
        scheme: the stages, or {Rule: stages}; None for CLT-k, which has a form of its own.
        feedback: rule of the residuals, or None if the system keeps none.
        schedule: its warm-up, or None.
        source: paper and section of the settings.
        optimizer: momentum of the optimizer that takes the means, for the recipe's density, as text.
        ratio: ratio of CLT-k; None for all other systems.
        scope: "group" if all tensors are one vector, else "tensor".

    Examples:
        >>> import wirecodec as wc
        >>> wc.RECIPES["dgc"].feedback
        MomentumCorrection(momentum=0.9, nesterov=False, masking=True)
    """

    scheme: Scheme | Mapping[Rule, Scheme] | None
    feedback: Feedback | None
    schedule: WarmUp | None
    source: str
    optimizer: str = AS_DENSE
    ratio: float | None = None
    scope: str = "tensor"


_KEPT = ErrorFeedback()
_EPOCH = 98
"""Steps per epoch of CIFAR-10 on 4 workers with 128 samples each; papers give warm-ups in epochs."""


_WITHOUT_FEEDBACK = (
    *("qsgd", "qsgd-3-bits", "terngrad", "terngrad-noclip"),
    *("deepreduce-sparse", "deepreduce-qsgd-bf-p0", "skcompress"),
)
"""Unbiased quantizers, those of the FFT paper, and systems for sparse gradients: residuals fill zeros."""


def _of_preset(name: str) -> Recipe:
    """Return the recipe of a preset."""
    scheme, source = PRESETS[name].scheme, PRESETS[name].source
    if name == "dgc":
        warm_up = WarmUp(4 * _EPOCH, start=0.25)
        source = "Lin et al., Deep Gradient Compression, 2018, sections 3.1 to 3.3; warm-up of 4 epochs"
        return Recipe(scheme, MomentumCorrection(), warm_up, source, "none: plain SGD")
    if name == "fft":
        return Recipe(scheme, None, None, f"{source}; all tensors as one vector", scope="group")
    if name in _WITHOUT_FEEDBACK:
        return Recipe(scheme, None, None, source)
    if name == "adacomp":
        source = (
            "Chen et al., AdaComp, 2018, Table 2: bin 50 for convolutions, 500 for other layers, by shape"
        )
        other = override(scheme, {"bin": 500})
        rules = {Rule(ndim=(3, 4, 5)): scheme, Rule(): other}
        return Recipe(MappingProxyType(rules), _KEPT, None, source)
    ratio = getattr(scheme.select, "ratio", None)
    return Recipe(scheme, _KEPT, None, source, AS_DENSE if ratio is None or ratio > 0.01 else LESS)


_OWN = {
    "sparseloco": Recipe(
        Scheme.parse("chunk-topk(0.015625, 4096) | rice | error-bounded(0.15)"),
        ErrorFeedback(decay=0.95),
        None,
        "Sarfi et al., SparseLoCo, 2025, Algorithm 1: 64 of each 4096, decay 0.95; in place of 2 bits, "
        "values take what an error of 15 % needs; for local updates",
        "AdamW inside, none outside",
    ),
    "clt-k": Recipe(
        None,
        ErrorFeedback(),
        WarmUp(5 * _EPOCH, hold=True),
        "Chen et al., ScaleCom, 2020, section 4: beta 1, for large batches 0.1; warm-up of 5 epochs; one "
        "ratio in place of those by layer, which co.ratios_by_flops computes",
        LESS,
        ratio=0.01,
    ),
}

RECIPES: Mapping[str, Recipe] = MappingProxyType({name: _of_preset(name) for name in PRESETS} | _OWN)
"""All recipes by name."""

_LOCAL = ("diloco", "streaming-diloco", "muloco")
"""Systems of local updates, whose settings are more than a Compressor's; collectives has them."""


def explain_unknown_recipe(name: str, known: Iterable[str]) -> str:
    """Return the message for a recipe that is not among those known here: where it is, or the nearest."""
    key = name.lower()
    if key in ("demo", "distro"):
        hint = (
            "; the nearest is 'sparseloco': the block DCT of DeMo and DisTrO leaves more error in more bits "
            "(benchmarks/results/movements.md)"
        )
    elif key in _LOCAL:
        hint = f"; local updates have it: co.local_recipe({key!r})"
    elif key in RECIPES:
        hint = f"; gradients have it: wc.recipe({key!r})"
    else:
        hint = suggestion(name, known)
    return f"unknown recipe {name!r}{hint}"


def recipe(name: str, **overrides: Any) -> dict[str, Any]:
    """Return the settings of a published system, for ``Compressor(**recipe(name))``.

    Papers give warm-ups in epochs. The default has 98 steps per epoch, as CIFAR-10 on 4 workers with 128
    samples each: set ``steps`` to those of your data.

    Args:
        name: a key of ``RECIPES``, which also gives the source and the optimizer's momentum.
        overrides: ``scheme``, ``feedback``, ``schedule``, ``clip`` or ``scope`` replace a whole setting. A
            field of the feedback or the schedule sets it (``momentum=0.95``, ``steps=1000``). All others are
            those of ``preset``: stages, and their parameters (``ratio=0.01``, ``index="rice"``).

    Returns:
        {"scheme", "feedback", "schedule", "clip", "scope"}; the scheme of "adacomp" is {Rule: scheme}. For
        "clt-k", {"scheme", "feedback", "schedule"}, for co.CLTk; its scheme is ``ratio``, which may be
        {key: ratio}, as co.ratios_by_flops returns it. DGC clips as the dense training of the same model
        does: ``clip`` is None unless it is given.

    Raises:
        EncodeError: a name is unknown, or a parameter is out of range. The message has the nearest name.

    Examples:
        >>> import wirecodec as wc
        >>> compressor = wc.Compressor(**wc.recipe("dgc", ratio=0.01, steps=1000, index="rice"))
        >>> compressor.feedback.momentum, compressor.schedule.steps
        (0.9, 1000)
    """
    if name not in RECIPES:
        raise EncodeError(explain_unknown_recipe(str(name), RECIPES))
    published = RECIPES[name]
    settings: dict[str, Any] = {
        "scheme": published.scheme,
        "feedback": published.feedback,
        "schedule": published.schedule,
    }
    settings["clip"] = None
    for key in settings:
        if key in overrides:
            settings[key] = overrides.pop(key)
    for key in ("feedback", "schedule"):
        settings[key] = _set_fields(settings[key], overrides)
    if published.scheme is None:
        settings["scheme"] = overrides.pop("ratio", settings["scheme"] or published.ratio)
        if overrides:
            key = next(iter(overrides))
            known = ("scheme", "ratio", "feedback", "beta", "schedule", "steps", "start", "hold")
            raise EncodeError(f"recipe {name!r}: unknown override {key!r}{suggestion(key, known)}")
        del settings["clip"]
        return _LeaderSettings(settings)
    settings["scope"] = overrides.pop("scope", published.scope)
    try:
        settings["scheme"] = _override_each(settings["scheme"], overrides)
    except EncodeError as error:
        raise EncodeError(f"recipe {name!r}: {error.reason}") from None
    return settings


class _LeaderSettings(dict[str, Any]):
    """Settings of CLT-k; those of 0.1.0 had the keys "ratio" and "beta", which go with 0.3.0."""

    def __missing__(self, key: str) -> Any:
        older = {"ratio": lambda: self["scheme"], "beta": lambda: self["feedback"].beta}
        if key not in older:
            raise KeyError(key)
        text = f"wirecodec.recipe('clt-k'): the key {key} goes with 0.3.0; use scheme and feedback"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return older[key]()


def _override_each(scheme: Any, overrides: Mapping[str, Any]) -> Any:
    """Set parameters of a scheme, or of all schemes of a mapping, of which a new dict is returned."""
    if isinstance(scheme, Mapping):
        return {key: _override_each(entry, overrides) for key, entry in scheme.items()}
    return override(scheme, overrides) if overrides else scheme


def _set_fields(setting: Any, overrides: dict[str, Any]) -> Any:
    """Set the fields of a feedback or a schedule that are among the overrides, and remove them there."""
    if not dataclasses.is_dataclass(setting) or isinstance(setting, type):
        return setting
    names = {field.name for field in dataclasses.fields(setting)} & overrides.keys()
    return dataclasses.replace(setting, **{name: overrides.pop(name) for name in names}) if names else setting
