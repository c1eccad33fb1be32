"""Settings of a Compressor: which scheme and feedback each tensor has in a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wirecodec.errors import EncodeError
from wirecodec.settings.feedback import (
    Feedback,
    FeedbackLike,
    MomentumCorrection,
    as_feedback,
    feedback_for,
    list_feedback,
)
from wirecodec.settings.rules import Key, key_text
from wirecodec.settings.schedule import Schedule
from wirecodec.settings.scheduling import check_schedule, schedule_text, scheme_at
from wirecodec.settings.scheme import Scheme, SchemeLike, as_scheme, scheme_for
from wirecodec.validation import as_real

__all__ = ["Settings"]


@dataclass(frozen=True, eq=False)
class Settings:
    """What does not change from step to step; the arguments of a Compressor.

    Attributes:
        schemes: one for all tensors, or {key: scheme}.
        feedback: one for all tensors, None, or {key: feedback}.
        schedule: function of the step and the tensor's own ratio, or None.
        clip: largest norm of all gradients together, or None.
    """

    schemes: Scheme | Mapping[Key, Scheme]
    feedback: FeedbackLike
    schedule: Schedule | None
    clip: float | None
    _scheduled: dict[int, tuple[int, Scheme]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        scheme: SchemeLike | Mapping[Key, SchemeLike],
        feedback: FeedbackLike,
        schedule: Schedule | None,
        clip: float | None,
    ) -> Settings:
        """Check the arguments of a Compressor. Raises EncodeError."""
        schemes: Scheme | Mapping[Key, Scheme] = (
            {key: as_scheme(one) for key, one in scheme.items()}
            if isinstance(scheme, Mapping)
            else as_scheme(scheme)
        )
        bound = None if clip is None else as_real(clip, "clip")
        if bound is not None and not bound > 0:
            raise EncodeError(f"clip is {clip!r}; it must be above 0, or None")
        listed = [schemes] if isinstance(schemes, Scheme) else schemes.values()
        return cls(schemes, as_feedback(feedback), check_schedule(schedule, listed), bound)

    def __str__(self) -> str:
        schemes = "; ".join(f"{key_text(key)}: {scheme}" for key, scheme in self.scheme_map.items())
        rules: Any = self.feedback
        if isinstance(rules, Mapping):
            rules = {key_text(key): one for key, one in rules.items()}
        return f"{schemes}; feedback {rules}; schedule {schedule_text(self.schedule)}; clip {self.clip}"

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

    @property
    def has_momentum(self) -> bool:
        """Whether a tensor may have a momentum."""
        return any(isinstance(rule, MomentumCorrection) for rule in list_feedback(self.feedback))

    def with_schedule(self, schedule: Schedule | None) -> Settings:
        """Return these settings with another schedule."""
        return Settings(self.schemes, self.feedback, schedule, self.clip)

    def forget_scheduled(self) -> None:
        """Forget the ratios of this step: a rate that the schedule follows may have changed."""
        self._scheduled.clear()

    def scheme_at(self, name: str, shape: Any, step: int) -> Scheme:
        """Return a tensor's scheme at a step, with the schedule's ratio. Raises EncodeError."""
        scheme = scheme_for(name, self.schemes, shape)
        if self.schedule is None:
            return scheme
        done, found = self._scheduled.get(id(scheme), (-1, scheme))
        if done != step:  # one object per scheme and step, so that tensors with it are selected together
            found = scheme_at(scheme, self.schedule, step)
            self._scheduled[id(scheme)] = step, found
        return found

    def scheme_of(self, name: str, shape: Any, step: int | None) -> Scheme:
        """Return a tensor's scheme at a step of the schedule, or without it. Raises EncodeError."""
        scheme = scheme_for(name, self.schemes, shape)
        return scheme if step is None else scheme_at(scheme, self.schedule, step)

    def feedback_of(self, name: str, shape: Any) -> Feedback | None:
        """Return a tensor's feedback. Raises EncodeError."""
        return feedback_for(name, shape, self.feedback)
