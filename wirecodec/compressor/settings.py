"""Settings of a Compressor: which scheme and feedback each tensor has in a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from wirecodec.element_types import dtype_named
from wirecodec.errors import EncodeError
from wirecodec.select.budget.selector import Budget
from wirecodec.settings.feedback import (
    Feedback,
    FeedbackLike,
    MomentumCorrection,
    as_feedback,
    feedback_for_all,
    list_feedback,
)
from wirecodec.settings.rules import Key, find_matches, key_text
from wirecodec.settings.schedule import Schedule, WarmUp
from wirecodec.settings.scheduling import check_schedule, ratio_at, schedule_text, scheme_at
from wirecodec.settings.scheme import (
    WHOLE,
    Scheme,
    SchemeLike,
    as_scheme,
    scheme_for,
    schemes_for,
)
from wirecodec.validation import as_integer, as_real

_SPEND_ALL = "budget(bits=1) | rice | error-bounded"
"""Scheme of a Compressor with ``bytes_per_step`` and no scheme."""


@dataclass(frozen=True, eq=False)
class Settings:
    """Settings that do not change from step to step: the arguments of a Compressor.

    Attributes:
        schemes: one for all tensors, or {key: scheme}.
        feedback: one for all tensors, None, or {key: feedback}.
        schedule: function of the step and the tensor's own ratio, or None.
        clip: largest norm of all gradients together, or None.
        scope: "tensor" or "group".
        bytes_per_step: largest size of a step's container in bytes, or None.
        weights: {key: factor of the squared errors}; 1 for tensors that match none.
    """

    schemes: Scheme | Mapping[Key, Scheme]
    feedback: FeedbackLike
    schedule: Schedule | None
    clip: float | None
    scope: str = "tensor"
    bytes_per_step: int | None = None
    weights: Mapping[Key, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        scheme: SchemeLike | Mapping[Key, SchemeLike],
        feedback: FeedbackLike,
        schedule: Schedule | None,
        clip: float | None,
        scope: str,
        bytes_per_step: int | None,
        weights: Mapping[Key, float] | None = None,
    ) -> Settings:
        """Check the arguments of a Compressor. Raises EncodeError."""
        if bytes_per_step is not None:
            bytes_per_step = as_integer(bytes_per_step, "bytes_per_step")
            scheme, scope = (_SPEND_ALL, "group") if scheme is None else (scheme, scope)
        schemes: Scheme | Mapping[Key, Scheme] = (
            {key: as_scheme(one) for key, one in scheme.items()}
            if isinstance(scheme, Mapping)
            else as_scheme(scheme)
        )
        bound = None if clip is None else as_real(clip, "clip")
        if bound is not None and not bound > 0:
            raise EncodeError(f"clip is {clip!r}; it must be above 0, or None")
        listed = [schemes] if isinstance(schemes, Scheme) else schemes.values()
        if scope not in ("tensor", "group"):
            raise EncodeError(f'scope is {scope!r}; it must be "tensor" or "group"')
        if bytes_per_step is not None and not any(isinstance(one.select, Budget) for one in listed):
            raise EncodeError(
                "bytes_per_step needs a scheme with a budget, such as 'budget(bits=1) | rice | error-bounded'"
            )
        checked = check_schedule(schedule, listed)
        factors = _check_weights(weights, scope, listed)
        return cls(schemes, as_feedback(feedback), checked, bound, scope, bytes_per_step, factors)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        schemes = "; ".join(f"{key_text(key)}: {scheme}" for key, scheme in self.scheme_map.items())
        rules: Any = self.feedback
        if isinstance(rules, Mapping):
            rules = {key_text(key): one for key, one in rules.items()}
        schedule = schedule_text(self.schedule)
        text = f"{schemes}; feedback {rules}; schedule {schedule}; clip {self.clip}; scope {self.scope}"
        if self.bytes_per_step is not None:
            text += f"; bytes per step {self.bytes_per_step}"
        weights = {key_text(key): one for key, one in self.weights.items()}
        return f"{text}; weights {weights}" if weights else text

    @property
    def scheme_map(self) -> dict[Key, Scheme]:
        """{key: scheme}; the first match applies."""
        return {"*": self.schemes} if isinstance(self.schemes, Scheme) else dict(self.schemes)

    @property
    def schemes_text(self) -> str:
        """The schemes as a Compressor prints them."""
        if isinstance(self.schemes, Scheme):
            return repr(str(self.schemes))
        return str({key_text(key): str(one) for key, one in self.schemes.items()})

    @cached_property
    def has_momentum(self) -> bool:
        """Whether a tensor may have a momentum."""
        return any(isinstance(rule, MomentumCorrection) for rule in list_feedback(self.feedback))

    @cached_property
    def has_budget(self) -> bool:
        """Whether a selector asks for the bytes of the container's header."""
        return any(scheme.select.needs_costs for scheme in self.scheme_map.values())

    def with_schemes(self, change: Callable[[Scheme], Scheme]) -> Settings:
        """Return these settings with each scheme replaced by what a function returns for it."""
        if isinstance(self.schemes, Scheme):
            return replace(self, schemes=change(self.schemes))
        return replace(self, schemes={key: change(one) for key, one in self.schemes.items()})

    def with_schedule(self, schedule: Schedule | None) -> Settings:
        """Return these settings with another schedule."""
        return replace(self, schedule=schedule)

    def schemes_at(self, tensors: Mapping[str, Any], step: int) -> dict[str, Scheme]:
        """Return the scheme of each of {name: tensor} at a step, with the schedule's ratio.

        Raises EncodeError, which names a tensor.
        """
        if isinstance(self.schemes, Scheme):
            schemes = dict.fromkeys(tensors, self.schemes)
        else:
            schemes = schemes_for(tensors, self.schemes)
        if self.schedule is None:
            return schemes
        whole = self.bytes_at(tensors, step) == math.inf
        at_step: dict[int, Scheme] = {}  # one object per scheme, so that its tensors are selected together
        for name, scheme in schemes.items():
            if id(scheme) not in at_step:
                try:
                    at_step[id(scheme)] = self._scheme_at(scheme, step, whole=whole)
                except EncodeError as error:
                    raise error.of(name) from None
        return {name: at_step[id(scheme)] for name, scheme in schemes.items()}

    def _scheme_at(self, scheme: Scheme, step: int, *, whole: bool = False) -> Scheme:
        """Return a scheme at a step; the schedule changes the bytes of the step instead of budgets' bits."""
        if self.bytes_per_step is not None and isinstance(scheme.select, Budget):
            return WHOLE if whole else scheme
        return scheme_at(scheme, self.schedule, step)

    def bytes_at(self, tensors: Mapping[str, Any], step: int) -> float | None:
        """Return the bytes of a step: infinite if the schedule sends all tensors whole, None for no limit.

        The schedule gets the part of the raw bytes of all tensors as their own ratio.

        Raises EncodeError if the schedule's ratio is out of range.
        """
        if self.bytes_per_step is None or self.schedule is None:
            return self.bytes_per_step
        if isinstance(self.schedule, WarmUp) and self.schedule.sends_raw(step):
            return math.inf
        raw = sum(math.prod(x.shape) * dtype_named(x.dtype).itemsize for x in tensors.values())
        own = min(self.bytes_per_step / max(raw, 1), 1.0)
        ratio = ratio_at(self.schedule, step, own)
        if ratio == own:
            return self.bytes_per_step
        return math.inf if ratio == 1 else int(ratio * raw)

    def groups_of(self, tensors: Mapping[str, Any], schemes: Mapping[str, Scheme]) -> dict[str, int]:
        """Return {name: number of its group}; none with scope "tensor", or if a tensor is sent whole."""
        if self.scope == "tensor":
            return {}
        numbers: Mapping[str, int] = dict.fromkeys(tensors, 0)
        if isinstance(self.schemes, Mapping):
            numbers = find_matches(tensors, {key: i for i, key in enumerate(self.schemes)}, "scheme")
        return {name: number for name, number in numbers.items() if not schemes[name].sends_all}

    def weights_of(self, tensors: Mapping[str, Any]) -> Mapping[str, float]:
        """Return {name: factor of the squared error}, for a mapping of weights."""
        if not self.weights:
            return {}
        return find_matches(tensors, {**self.weights, "*": self.weights.get("*", 1.0)}, "weight")

    def scheme_of(self, name: str, shape: Any, step: int | None) -> Scheme:
        """Return a tensor's scheme at a step of the schedule, or without it. Raises EncodeError."""
        scheme = scheme_for(name, self.schemes, shape)
        return scheme if step is None else self._scheme_at(scheme, step)

    def rules_of(
        self, tensors: Mapping[str, Any], schemes: Mapping[str, Scheme], residuals: Mapping[str, Any]
    ) -> dict[str, Feedback | None]:
        """Return the feedback of each of {name: tensor}; None if neither residual nor momentum is kept.

        Args:
            tensors: by name; the keys of the feedback may need their shapes.
            schemes: by name.
            residuals: the state, by name.
        """
        rules: dict[str, Feedback | None]
        if isinstance(self.feedback, Mapping):
            rules = feedback_for_all(tensors, self.feedback)
        else:
            rules = dict.fromkeys(tensors, self.feedback)
        pairs = zip(rules.values(), schemes.values(), strict=True)
        identities = zip(map(id, rules.values()), map(id, schemes.values()), strict=True)
        distinct = dict(zip(identities, pairs, strict=True))
        needed = {pair: self._is_needed(*both) for pair, both in distinct.items()}
        if all(needed.values()):
            return rules
        return {
            name: rule if needed[id(rule), id(schemes[name])] or name in residuals else None
            for name, rule in rules.items()
        }

    def _is_needed(self, rule: Feedback | None, scheme: Scheme) -> bool:
        """Return whether a tensor without a residual needs its feedback."""
        if isinstance(rule, MomentumCorrection) or self.clip is not None:
            return True  # the elements' type may not hold the result
        return not scheme.sends_all


def _check_weights(
    weights: Mapping[Key, float] | None, scope: str, schemes: Iterable[Scheme]
) -> Mapping[Key, float]:
    """Return the weights of errors. Raises EncodeError if they are not numbers above 0, or have no effect."""
    if not weights:
        return {}
    checked = {key: as_real(one, f"weights: {key_text(key)}") for key, one in weights.items()}
    for key, one in checked.items():
        if not 0 < one < math.inf:
            raise EncodeError(f"weights: {key_text(key)} is {one!r}; it must be above 0")
    budgets = [scheme for scheme in schemes if isinstance(scheme.select, Budget)]
    if any(scheme.transform is not None for scheme in budgets):
        raise EncodeError("weights are those of elements; a budget with a transform divides coefficients")
    if scope != "group" or not budgets:
        raise EncodeError(
            'weights divide the bytes of a group: use scope="group" and a budget, such as'
            " 'budget(0.25) | rice | error-bounded', or bytes_per_step without a scheme"
        )
    return checked
