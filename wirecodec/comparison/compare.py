"""``compare``: published systems and other schemes on the same gradient, per tensor and as one vector."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.comparison.measurement import (
    EncodedGradient,
    ProgressCallback,
    allocate_sums,
    ignore_progress,
    measure_medians,
)
from wirecodec.comparison.rates import Goal, reach
from wirecodec.comparison.table import Comparison, ComparisonTable
from wirecodec.errors import EncodeError
from wirecodec.registry import suggestion
from wirecodec.select.topk import fraction_count
from wirecodec.settings.presets import PRESETS, override, preset
from wirecodec.settings.recipes import RECIPES, recipe
from wirecodec.settings.scheme import Scheme, read_call

OWN = (
    "budget(0.25) | rice | error-bounded",
    "budget(0.1) | rice | error-bounded",
    "topk(0.01) | rice | raw(bfloat16)",
    "topk(0.01) | rice | qsgd(bits=4)",
    "topk(0.01) | rice | sign-scale",
)
"""Schemes of README that are compared by default, with all presets."""
OWN_RATES = OWN[1:]
"""Those of them that differ in more than the rate."""
VECTOR = "model"
FAR = 1.5
"""Factor between selected and asked elements above which a row has a note."""
NOT_CODECS = {
    "powersgd": "sends two dense factors of each matrix by all-reduces, so it is no codec of sparse"
    " gradients; benchmarks/results/training.md trains with it",
    "clt-k": "is an exchange, co.CLTk: all ranks send the elements that one of them has chosen. Of one rank's"
    " gradient it sends what 'topk(0.01) | rice | raw' does",
    "gtop-k": "is an exchange, co.GTopK: ranks merge their largest elements in pairs. Of one rank's gradient"
    " it sends what 'topk(0.01) | rice | raw' does",
    "ok-topk": "is an exchange, co.OkTopK: ranks reduce their largest elements by ranges, and send the"
    " largest sums. Of one rank's gradient it sends about what 'topk(0.01) | rice | raw' does",
    **dict.fromkeys(
        ("diloco", "streaming-diloco", "muloco"),
        "is a method of local updates, co.local_recipe: it sends movements of the weights after many steps,"
        " and no gradient. Save such a movement to compare schemes on it",
    ),
}
"""Names of systems that cannot take part, and what they are."""
_RECIPES_ALONE = tuple(
    name for name, one in RECIPES.items() if name not in PRESETS and one.scheme is not None
)
"""Recipes that are no presets, but have a scheme."""


def compare(
    gradients: Any,
    schemes: Iterable[str | Scheme] | None = None,
    *,
    bits: float | None = None,
    error: float | None = None,
    seconds: float = 0.1,
    progress: ProgressCallback = ignore_progress,
) -> ComparisonTable:
    """Encode and decode a gradient by several schemes, and return what each makes of it.

    A gradient of several tensors is encoded twice by each scheme: every tensor by itself, as a Compressor
    does, and all of them as one vector, as ``scope="group"`` selects. A selector with a state, such as
    SIDCo's, selects from the gradient 50 times before: in a training, its first steps alone are different.

    With ``bits`` or ``error``, the ratio or the budget of each scheme is replaced by the one that takes these
    bits, or has this error, within 1 %. It is searched for each of the two ways, which encodes the gradient
    13 to about 30 times. A scheme that cannot reach it has a row with a refusal that gives the limit.

    Args:
        gradients: an array, or {name: array}, of floats on the host.
        schemes: schemes, or names of presets, with overrides as in "dgc(ratio=0.01)"; None for all presets
            and some schemes of this library.
        bits: per element of the whole gradient, for all schemes; above 0.
        error: relative error for all schemes, above 0; not together with ``bits``.
        seconds: for the times of a scheme; 0 to measure none.
        progress: called with the completed fraction.

    Returns:
        A Comparison for each scheme and each of the two ways, in the order of the schemes; ``print`` shows
        them as a table. A scheme that is unknown has one row, at the end, with a refusal: it has the nearest
        name, or says what a system is that is no scheme.

    Raises:
        EncodeError: all schemes are unknown, ``bits`` or ``error`` is out of range, or both are given.
        TypeError: ``gradients`` is the name of a file.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> gradient = np.random.default_rng(0).laplace(size=20_000).astype(np.float32)
        >>> for row in wc.compare(gradient, ["terngrad", "budget(0.25) | rice | error-bounded"], seconds=0):
        ...     print(f"{row.name.partition(' |')[0]}: {row.bits:.2f} bits, error {row.relative_error:.2f}")
        terngrad: 1.63 bits, error 0.94
        budget(0.25): 0.24 bits, error 0.85
    """
    if isinstance(gradients, str | bytes | os.PathLike):
        raise TypeError("compare takes arrays: read a file with np.load, or run `wirecodec compare FILE`")
    goal = Goal.of(bits, error)
    tensors = dict(gradients) if isinstance(gradients, Mapping) else {"": gradients}
    tensors = {name: np.asarray(x) for name, x in tensors.items()}
    if schemes is None:
        schemes = (*(OWN if goal is None else OWN_RATES), *PRESETS)
    chosen, unknown = find_schemes(schemes)
    ways = [(False, tensors)]
    if len(tensors) > 1:
        ways.append((True, {VECTOR: _join(tensors)}))
    sums = [allocate_sums(given) for _, given in ways]
    rows = []
    for number, (name, scheme) in enumerate(chosen):
        for way, ((together, given), target) in enumerate(zip(ways, sums, strict=True)):
            rows.append(_measure(name, scheme, together, given, target, goal, seconds))
            progress((number + (way + 1) / len(ways)) / len(chosen))
    return ComparisonTable((*rows, *unknown), "" if goal is None else "error" if goal.is_error else "bits")


def list_schemes(ratio: float) -> list[str]:
    """Return what ``compare`` takes by default, with the same ratio for all whose selector has one.

    Raises:
        EncodeError: the ratio is out of range.
    """
    own = [str(override(one, {"ratio": ratio}) if _has_ratio(one) else one) for one in map(Scheme.parse, OWN)]
    published = [
        f"{name}(ratio={ratio:g})" if _has_ratio(one.scheme) else name for name, one in PRESETS.items()
    ]
    return [*own, *published]


def _has_ratio(scheme: Scheme) -> bool:
    return hasattr(scheme.select, "ratio")


def find_schemes(
    given: Iterable[str | Scheme],
) -> tuple[list[tuple[str, Scheme]], list[Comparison]]:
    """Return the schemes with their names, and a row with a refusal for each one that is not found.

    Raises:
        EncodeError: none is found.
    """
    found, unknown, errors = [], [], []
    for one in given:
        try:
            found.append((str(one), find_scheme(one)))
        except EncodeError as error:
            errors.append(error)
            unknown.append(Comparison(str(one), "", False, math.nan, math.nan, refusal=str(error)))
    if errors and not found:
        raise EncodeError("; ".join(dict.fromkeys(map(str, errors))))
    return found, unknown


def find_scheme(given: str | Scheme) -> Scheme:
    """Return a scheme by its text, or that of a preset.

    Raises:
        EncodeError: as for ``compare``.
    """
    if isinstance(given, Scheme):
        return given
    if "|" in given:
        return Scheme.parse(given)
    name = given.partition("(")[0].strip()
    if name in PRESETS:
        return preset(given)
    if meaning := NOT_CODECS.get(name.lower()):
        raise EncodeError(f"{name!r} {meaning}")
    if name in _RECIPES_ALONE:
        arguments = read_call(given)[1] if "(" in given else []
        scheme: Scheme = recipe(name, **dict(arguments))["scheme"]
        return scheme
    raise EncodeError(f"unknown preset {name!r}{suggestion(name, [*PRESETS, *_RECIPES_ALONE])}")


def _join(tensors: Mapping[str, Array]) -> Array:
    return np.concatenate([x.reshape(-1) for x in tensors.values()])


def _measure(
    name: str,
    scheme: Scheme,
    together: bool,
    tensors: Mapping[str, Array],
    sums: Mapping[str, Array],
    goal: Goal | None,
    seconds: float,
) -> Comparison:
    nan = math.nan
    try:
        if goal is not None:
            reached = _reach(goal, scheme, tensors, sums)
            if isinstance(reached, str):
                return Comparison(name, str(scheme), together, nan, nan, refusal=reached)
            scheme = reached
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            encoded = EncodedGradient.of(tensors, scheme, sums)
    except EncodeError as error:
        return Comparison(name, str(scheme), together, nan, nan, refusal=str(error))
    times: Sequence[float] = (0.0, nan, nan)
    if seconds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            times = measure_medians(encoded.calls, budget=seconds / 3)
    select, encode, decode = times
    density = encoded.written / max(encoded.elements, 1)
    times = select + encode, decode
    notes = [*dict.fromkeys(str(one.message) for one in warned), describe_count(scheme, tensors, encoded)]
    return Comparison(
        name,
        str(scheme),
        together,
        encoded.bits,
        encoded.error,
        density,
        *times,
        note="; ".join(filter(None, notes)),
    )


def describe_count(scheme: Scheme, tensors: Mapping[str, Array], encoded: EncodedGradient) -> str:
    """Return a note if a selector with a ratio chose ``FAR`` times the asked elements, or as many fewer."""
    ratio = getattr(scheme.select, "ratio", None)
    if ratio is None or scheme.transform is not None:
        return ""
    asked = sum(fraction_count(ratio, x.size) for x in tensors.values())
    if not asked or 1 / FAR <= encoded.selected / asked <= FAR:
        return ""
    return f"selected {encoded.selected / asked:.3g} times what was asked"


def _reach(
    goal: Goal, scheme: Scheme, tensors: Mapping[str, Array], sums: Mapping[str, Array]
) -> Scheme | str:
    """Find a rate as ``reach`` does; warnings of rates that are tried are not shown."""
    elements = sum(x.size for x in tensors.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return reach(goal, scheme, elements, lambda at: EncodedGradient.of(tensors, at, sums))
