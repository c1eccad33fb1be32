"""Check of an optimizer's momentum against a compressor's feedback, which is a momentum, too."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import wirecodec as wc
from collectives.cltk.allreduce import CLTk

MIN_RATIO, MIN_BITS = 0.01, 0.1
"""Density, and bits per element of a budget, below which momentum after error feedback costs much quality."""
HIGH_RATIO, HIGH_MOMENTUM = 0.05, 0.5
"""Density below which more than this momentum costs quality, as in the table of docs/guides/settings.md."""


def check_optimizer(optimizer: Any, compressor: wc.Compressor | CLTk) -> bool:
    """Warn if an optimizer's momentum and a compressor's feedback do not go together.

    Momentum correction applies momentum before the exchange. If the optimizer has momentum as well, it counts
    twice. Error feedback at a low density delays gradients, and momentum then amplifies them late: below 1 %
    of the elements, any momentum has a warning, and below 5 %, more than 0.5.

    A compressor has no access to the optimizer, so this check needs both. ``torch_hook``,
    ``average_gradients`` and ``LocalUpdates`` make it if they get an optimizer. Momentum is read from
    ``param_groups`` (torch: ``momentum``, or the first of ``betas``), or from the attributes ``momentum`` and
    ``beta_1`` (Keras). It is not found in other places, such as optax's functions or a program's own update.

    Args:
        optimizer: the one that applies the means.
        compressor: this rank's compressor.

    Returns:
        True if there is no warning.

    Examples:
        >>> import collectives as co, wirecodec as wc
        >>> compressor = wc.Compressor("topk(0.001) | rice | raw", feedback=wc.MomentumCorrection(0.9))
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # doctest: +SKIP
        >>> co.check_optimizer(optimizer, compressor)  # doctest: +SKIP
        True
    """
    return warn_of_momentum("the optimizer", find_momentum(optimizer), compressor, stacklevel=2)


def warn_of_momentum(
    what: str, momentum: float, compressor: wc.Compressor | CLTk, *, stacklevel: int
) -> bool:
    """Warn if a momentum after the exchange does not go with a compressor's feedback; return if it does.

    Args:
        what: has the momentum; for the message.
        momentum: its factor.
        compressor: encodes what is exchanged.
        stacklevel: of the warning; 1 for the line that calls this function.
    """
    text = _find_conflict(what, momentum, compressor) if momentum > 0 else None
    if text is not None:
        warnings.warn(text, stacklevel=stacklevel + 1)
    return text is None


def find_momentum(optimizer: Any) -> float:
    """Return the largest momentum of an optimizer's parameter groups; 0 if none is found."""
    groups = getattr(optimizer, "param_groups", None)
    if not isinstance(groups, list):
        named = (getattr(optimizer, name, 0) for name in ("momentum", "beta_1"))
        return max((_as_number(x) for x in named), default=0.0)
    momenta = [0.0]
    for group in groups:
        if isinstance(group, Mapping):
            betas = group.get("betas")
            first = betas[0] if isinstance(betas, list | tuple) and betas else 0
            momenta += [_as_number(group.get("momentum", 0)), _as_number(first)]
    return max(momenta)


def list_wrapped(optimizer: Any) -> list[Any]:
    """Return an optimizer, and those in it: a wrapper, as Accelerate's, has the groups of another one."""
    groups, found = getattr(optimizer, "param_groups", None), [optimizer]
    for outer in found if groups is not None else ():  # which grows
        parts = list(getattr(outer, "__dict__", {}).values())
        found += [
            x for x in parts if getattr(x, "param_groups", None) is groups and id(x) not in map(id, found)
        ]
    return found


def _as_number(x: Any) -> float:
    """Return a finite number as a float, and 0 for anything else."""
    try:
        number = float(x)
    except (TypeError, ValueError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def _find_conflict(what: str, momentum: float, compressor: wc.Compressor | CLTk) -> str | None:
    """Return what is wrong with a momentum after the exchange and what to do, or None."""
    rules: list[Any]
    if isinstance(compressor, CLTk):
        rules, other = [wc.ErrorFeedback()], ""
        least, sent = min((ratio, _as_text(ratio)) for ratio in compressor.ratios.values())
    else:
        rules, other = _list_rules(compressor), ", or feedback=wc.MomentumCorrection(0.9) and none"
        least, sent = min(map(_measure, compressor.schemes.values()))
    corrected = [rule for rule in rules if isinstance(rule, wc.MomentumCorrection) and rule.momentum]
    if corrected:
        return (
            f"{what} has momentum {momentum:g}, and wc.MomentumCorrection({corrected[0].momentum:g}) applies"
            " momentum before the exchange, so it counts twice: use an optimizer without momentum, such as"
            " SGD(momentum=0) or Adam(betas=(0, 0.99)), or feedback=wc.ErrorFeedback()"
        )
    highest = 0.0 if least < MIN_RATIO else HIGH_MOMENTUM if least < HIGH_RATIO else math.inf
    if momentum > highest and any(isinstance(rule, wc.ErrorFeedback) for rule in rules):
        return (
            f"{what} has momentum {momentum:g}, and {sent} with error feedback, which is a momentum, too: use"
            f" less momentum{other}, and compare the losses"
        )
    return None


def _list_rules(compressor: wc.Compressor) -> list[Any]:
    """Return the feedbacks of all keys."""
    rules = compressor.feedback
    return list(rules.values()) if isinstance(rules, Mapping) else [rules]


def _measure(scheme: wc.Scheme) -> tuple[float, str]:
    """Return the density that a scheme asks for, 1 if it is not known, and a text. A budget has bits."""
    selector: Any = scheme.select
    if isinstance(selector, wc.selectors.Budget):
        return MIN_RATIO * selector.bits / MIN_BITS, f"{selector.bits:g} bits per element are sent"
    ratio = 1.0 if getattr(selector, "ratio", None) is None else float(selector.ratio)
    return ratio, _as_text(ratio)


def _as_text(ratio: float) -> str:
    return f"{ratio:.2g} of the elements are sent"
