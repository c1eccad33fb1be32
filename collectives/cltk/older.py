"""The arguments that a CLTk had before it was constructed like a Compressor; they go with 0.3.0."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import wirecodec as wc
from wirecodec.interop import parse_stage


class Arguments(NamedTuple):
    """Arguments of a CLTk.

    Attributes:
        scheme: a ratio, a scheme, or {key: either}.
        feedback: rule of the residuals.
        warmup: number of initial steps that send everything; a schedule replaces it.
    """

    scheme: Any
    feedback: Any
    warmup: int


def read_arguments(scheme: Any, feedback: Any, older: Mapping[str, Any]) -> Arguments:
    """Return the arguments that older ones stand for, with a DeprecationWarning for each of these.

    Args:
        scheme, feedback: as given.
        older: ``ratio``, ``beta``, ``warmup`` and ``selector``; None for those that are not given.

    Raises EncodeError if an argument is out of range.
    """
    given = {name: value for name, value in older.items() if value is not None}
    for name in given:
        _warn(name, _REMEDIES[name])
    if scheme is None:
        if "ratio" not in given:
            raise TypeError("CLTk needs a scheme: a ratio, or text such as 'topk(0.01) | rice | raw'")
        scheme = given["ratio"]
    if feedback is None:
        _warn("feedback=None", "none: residuals are always kept")
        feedback = wc.ErrorFeedback()
    if "beta" in given:
        feedback = wc.ErrorFeedback(given["beta"])
    if "selector" in given:
        scheme = _with_selector(scheme, given["selector"])
    return Arguments(scheme, feedback, given.get("warmup", 0))


_REMEDIES = {
    "ratio": "scheme",
    "beta": "feedback=wc.ErrorFeedback(beta)",
    "warmup": "schedule=wc.WarmUp(steps, hold=True)",
    "selector": "a scheme, such as 'chunk-topk(0.01, 4096) | rice | raw'",
}


def _warn(old: str, new: str) -> None:
    """Warn at the line that constructs the CLTk."""
    text = f"collectives.CLTk: the argument {old} goes with 0.3.0; pass {new}"
    warnings.warn(text, DeprecationWarning, stacklevel=4)


def _with_selector(ratio: Any, selector: Any) -> Any:
    """Return the schemes of a selector, in which each tensor's ratio replaces its own. Raises EncodeError."""
    base = parse_stage("selector", selector) if isinstance(selector, str) else selector
    if getattr(base, "ratio", None) is None:
        raise wc.EncodeError(f"selector is {selector!r}, which has no ratio; use one that has")
    ratios = ratio if isinstance(ratio, Mapping) else {"*": ratio}
    return {
        key: wc.Scheme(dataclasses.replace(base, ratio=share), wc.codecs.AutoIndex(), wc.codecs.Raw())
        for key, share in ratios.items()
    }
