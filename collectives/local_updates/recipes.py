"""Recipes of local updates: published systems from end to end, as arguments of LocalUpdates.

    co.LocalUpdates(optimizer, model.named_parameters(), comm=comm, **co.local_recipe("diloco"))

``LocalRecipe.source`` names the place where the settings were seen: a paper's text or its public code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import wirecodec as wc
from wirecodec.interop import explain_unknown_recipe

E3M0 = "all | raw-index | offset-float(bits=4, mantissa=0)"
"""A sign and the powers of two of 7 exponents or more, with a code for zero: it has all values of E3M0."""


@dataclass(frozen=True)
class LocalRecipe:
    """Settings of a published system of local updates.

    Attributes:
        compressor: arguments of ``wc.Compressor``.
        settings: arguments of ``co.LocalUpdates``.
        inner: the inner optimizer, as text.
        source: paper or code in which the settings were seen.
        differs: where this is not the published system, and which settings no source gives; may be empty.

    Examples:
        >>> import collectives as co
        >>> co.LOCAL_RECIPES["muloco"].settings["every"]
        30
    """

    compressor: Mapping[str, Any]
    settings: Mapping[str, Any]
    inner: str
    source: str
    differs: str = ""


def _fixed(**values: Any) -> Mapping[str, Any]:
    return MappingProxyType(values)


LOCAL_RECIPES: Mapping[str, LocalRecipe] = MappingProxyType(
    {
        "diloco": LocalRecipe(
            compressor=_fixed(scheme="all | raw-index | raw"),
            settings=_fixed(every=500, rate=0.7, momentum=0.9, nesterov=True),
            inner="AdamW",
            source="Douillard et al., DiLoCo, 2023, Algorithm 1; rate and momentum as section 7.1 of DiPaCo, "
            "2024, quotes them, steps of OpenDiLoCo's code",
        ),
        "streaming-diloco": LocalRecipe(
            compressor=_fixed(scheme=E3M0, feedback=None),
            settings=_fixed(
                every=100, rate=0.4, momentum=0.9, nesterov=True, fragments=8, delay=1, alpha=0.5
            ),
            inner="AdamW",
            source="Douillard et al., Streaming DiLoCo, 2025: rate, section 3.2; 8 fragments for 24 blocks, "
            "3.2.2; delay 1, at most 5, 3.3.2; alpha, Figure 10; E3M0, 2.4",
            differs="fragments are runs of parameters, the paper's second pattern: lists of globs name every "
            "8th block; exponents fit each tensor; the text gives no momentum (here DiLoCo's) and no "
            "exponent bias",
        ),
        "sparseloco": LocalRecipe(
            compressor=_fixed(**wc.recipe("sparseloco")),
            settings=_fixed(every=30, rate=1.0),
            inner="AdamW",
            source="Sarfi et al., SparseLoCo, 2025, Algorithm 1; steps, rate and decay of the authors' "
            "public run (tplr-ai/templar, hparams/hparams.json of commit c2397ac5)",
            differs="chunks of 4096 neighbours in place of blocks of 64 × 64; values with an error of 15 % "
            "in place of 2 bits",
        ),
        "muloco": LocalRecipe(
            compressor=_fixed(
                scheme="all | raw-index | error-bounded(0.3)", feedback=wc.ErrorFeedback(decay=0.9)
            ),
            settings=_fixed(every=30, rate=0.81, momentum=0.8, nesterov=True),
            inner="torch.optim.Muon with momentum 0.9 for matrices between layers, AdamW for all others",
            source="Thérien et al., MuLoCo, 2025, by the authors' code for 8 workers "
            "(facebookresearch/MuLoCo), whose rate of 0.9 applies before the residual and after the mean",
            differs="values with an error of 30 % in place of 4 bins per row; norms are quantized, too, and "
            "means are not; not checked against the paper's text",
        ),
        "budget": LocalRecipe(
            compressor=_fixed(scheme="budget(0.6) | rice | error-bounded", scope="group"),
            settings=_fixed(every=6, rate=1.0, momentum=0.3, nesterov=True),
            inner="Adam with betas (0.5, 0.99), or SGD with momentum 0.5 or less",
            source="this library: text-lstm in benchmarks/results/training.md, 5 seeds",
        ),
        "few-bits": LocalRecipe(
            compressor=_fixed(scheme="budget(0.073) | rice | error-bounded", scope="group"),
            settings=_fixed(every=10, rate=1.0, keep=0.5, divide="senders"),
            inner="AdamW with betas (0.9, 0.99)",
            source="this library: text-long in benchmarks/results/training.md, 2 seeds",
        ),
    }
)
"""All recipes of local updates by name."""


def local_recipe(name: str, **overrides: Any) -> dict[str, Any]:
    """Return the settings of a system, for ``LocalUpdates(…, comm=comm, **local_recipe(name))``.

    Each worker calls this for itself: the Compressor in the result has the state of one worker. The inner
    optimizer is the program's own; ``LOCAL_RECIPES[name].inner`` describes the published one. Settings for
    large models do not fit small ones: "streaming-diloco" has 8 fragments for a model of 24 blocks.

    Args:
        name: a key of ``LOCAL_RECIPES``, which also gives the source and the departures from it.
        overrides: arguments of ``LocalUpdates`` in place of the recipe's: ``every=15``, ``fragments=4``, or
            ``compressor=wc.Compressor(…)``.

    Returns:
        {"compressor": a new Compressor, "every", "rate", …}.

    Raises:
        ValueError: the name is unknown. The message has the nearest name.

    Examples:
        >>> import numpy as np, collectives as co
        >>> def train(comm):
        ...     w = np.zeros(3, np.float32)
        ...     local = co.LocalUpdates(None, {"w": w}, comm=comm, **co.local_recipe("diloco", every=2))
        ...     for _ in range(2):
        ...         w += [1, 0, 2 * comm.rank]  # a step of this worker's own
        ...         local.step()
        ...     return w.round(2)
        >>> co.simulate(2, train)[0]
        array([2.66, 0.  , 2.66], dtype=float32)
    """
    if name not in LOCAL_RECIPES:
        raise ValueError(explain_unknown_recipe(str(name), LOCAL_RECIPES))
    one = LOCAL_RECIPES[name]
    return {"compressor": wc.Compressor(**one.compressor), **one.settings, **overrides}
