"""Strings that are hashed as the scheme of a header (spec/scheme.md, section "Hashed strings")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


def format_real(x: float) -> str:
    """Return a real as canonical strings have it: the digits that Python prints."""
    return repr(float(x))


def quote(text: str) -> str:
    """Return a key in quotes, as Python prints it."""
    return repr(text)


def format_rule(rule: Mapping[str, Any], *, short: bool) -> str:
    """Return a key that is a rule: with all fields, or with those that are given."""
    every = {"glob": "*", "ndim": None, "min_size": None, "max_size": None} | dict(rule)
    if isinstance(every["ndim"], list):
        every["ndim"] = tuple(every["ndim"])
    shown = {name: x for name, x in every.items() if not short or x not in (None, "*")}
    return f"Rule({', '.join(f'{name}={x!r}' for name, x in shown.items())})"


Keyed = list[list[Any]]
"""Pairs of a key, which is a glob or the fields of a rule, and a value."""


def mapping_text(pairs: Keyed) -> str:
    """Return the string of schemes by key, without a Compressor."""
    return ", ".join(
        f"{quote(key) if isinstance(key, str) else format_rule(key, short=False)}: {scheme}"
        for key, scheme in pairs
    )


def _key(key: Any) -> str:
    return key if isinstance(key, str) else format_rule(key, short=True)


def feedback_text(feedback: Any) -> str:
    """Return the text of a feedback: None, {name of the class: parameters}, or pairs of a key and one."""
    if feedback is None:
        return "None"
    if isinstance(feedback, list):
        return "{" + ", ".join(f"{quote(_key(key))}: {feedback_text(one)}" for key, one in feedback) + "}"
    ((name, given),) = feedback.items()
    if name == "ErrorFeedback":
        one = {"beta": 1.0, "decay": 1.0} | given
        return f"ErrorFeedback(beta={format_real(one['beta'])}, decay={format_real(one['decay'])})"
    one = {"momentum": 0.9, "nesterov": False, "masking": True} | given
    return (
        f"MomentumCorrection(momentum={format_real(one['momentum'])}, nesterov={one['nesterov']},"
        f" masking={one['masking']})"
    )


def compressor_text(
    schemes: str | Keyed,
    *,
    step: int,
    feedback: Any = "default",
    schedule: str = "NoneType",
    clip: float | None = None,
    scope: str = "tensor",
    bytes_per_step: int | None = None,
    weights: Keyed | None = None,
) -> str:
    """Return the string of a Compressor at a step."""
    pairs = [["*", schemes]] if isinstance(schemes, str) else schemes
    given = {"ErrorFeedback": {}} if feedback == "default" else feedback
    parts = [
        *(f"{_key(key)}: {scheme}" for key, scheme in pairs),
        f"feedback {feedback_text(given)}",
        f"schedule {schedule}",
        f"clip {None if clip is None else format_real(clip)}",
        f"scope {scope}",
    ]
    if bytes_per_step is not None:
        parts.append(f"bytes per step {bytes_per_step}")
    if weights:
        rows = ", ".join(f"{quote(_key(key))}: {format_real(x)}" for key, x in weights)
        parts.append(f"weights {{{rows}}}")
    return f"compressor {'; '.join(parts)}; step {step}"


@dataclass(frozen=True)
class LocalSettings:
    """Settings of local updates over a store, on which its peers agree."""

    every: int = 1
    rate: float = 1.0
    momentum: float = 0.0
    nesterov: bool = False
    alpha: float = 0.0
    divide: str = "ranks"

    @property
    def text(self) -> str:
        """What follows the string of the Compressor."""
        return (
            f"; local updates OuterSettings(every={self.every}, rate={format_real(self.rate)},"
            f" momentum={format_real(self.momentum)}, nesterov={self.nesterov}, fragments=1, delay=0,"
            f" alpha={format_real(self.alpha)}, divide='{self.divide}', keep=0.0)"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the field of a vector."""
        return dict(vars(self))
