"""The selectors with which CLT-k's leader chooses: a ratio per tensor, and a schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import wirecodec as wc
from wirecodec.interop import as_integer, find_match, key_text, parse_stage, restore_schedule, schedule_text


class LeaderSelectors:
    """Selectors of all tensors.

    Args:
        ratio: one for all tensors, or {key: ratio}; a key is a glob or a Rule.
        selector: a selector with a ratio, or its string; each tensor's ratio replaces its own.
        schedule: function (step, ratio) -> ratio, or None.
        warmup: number of initial steps that send everything.
        scope: "tensor", or "group" for one selection from all tensors of a key.

    Raises:
        EncodeError: an argument is out of range, or the selector has no ratio.
    """

    def __init__(self, ratio: Any, selector: Any, schedule: Any, warmup: int, scope: str = "tensor") -> None:
        base = parse_stage("selector", selector) if isinstance(selector, str) else selector
        if getattr(base, "ratio", None) is None:
            raise wc.EncodeError(
                f"selector is {selector!r}, which has no ratio; use one that has, such as"
                " wc.selectors.TopK(0.01) or wc.selectors.ChunkTopK(0.01, 4096)"
            )
        given = ratio if isinstance(ratio, Mapping) else {"*": ratio}
        if scope not in ("tensor", "group"):
            raise wc.EncodeError(f'scope is {scope!r}; it must be "tensor" or "group"')
        self._base = base
        self.scope = scope
        self._selectors = {key: dataclasses.replace(base, ratio=share) for key, share in given.items()}
        if schedule is not None:  # the checks are a Compressor's
            wc.Compressor("topk(0.5) | rice | raw", schedule=schedule)
        self.schedule = schedule
        self.warmup = as_integer(warmup, "warmup")
        if self.warmup < 0:
            raise wc.EncodeError(f"warmup is {warmup!r}; it must be at least 0")

    @property
    def has_gpu_kernels(self) -> bool:
        """Whether the selection runs on a GPU."""
        return isinstance(self._base, wc.selectors.TopK)

    @property
    def ratios(self) -> dict[Any, float]:
        """{key: ratio} without the schedule."""
        return {key: float(selector.ratio) for key, selector in self._selectors.items()}

    def at(self, name: str, shape: tuple[int, ...] | None, step: int) -> Any:
        """Return a tensor's selector at a step, or None if it is sent whole. Raises EncodeError."""
        selector = find_match(name, shape, self._selectors, "ratio")
        if step < self.warmup:
            return None
        ratio = float(selector.ratio)
        if self.schedule is not None and ratio < 1:
            ratio = float(self.schedule(step, ratio))
            if not 0 < ratio <= 1:
                raise wc.EncodeError(
                    f"ratio is {ratio!r} at step {step} of the schedule; it must be above 0 and at most 1"
                )
            selector = dataclasses.replace(selector, ratio=ratio)
        return None if ratio == 1 else selector

    def group(self, name: str, shape: tuple[int, ...] | None) -> int:
        """Return the number of the key that a tensor matches. Raises EncodeError if none does."""
        numbers = {key: number for number, key in enumerate(self._selectors)}
        number: int = find_match(name, shape, numbers, "ratio")
        return number

    def rehearsal(self, *, warm: bool) -> LeaderSelectors:
        """Return the selectors for a trial step: at the end of the schedule, or sending everything."""
        return LeaderSelectors(self.ratios, self._base, None, int(warm), self.scope)

    def restore(self, saved: Any) -> None:
        """Set the schedule of a loaded state, if it has one."""
        self.schedule = restore_schedule(saved, self.schedule)

    def __str__(self) -> str:
        ratios = ", ".join(f"{key_text(key)!r}: {one.ratio!r}" for key, one in self._selectors.items())
        base = "" if self.has_gpu_kernels else f", selector={dataclasses.replace(self._base, ratio=1.0)!r}"
        schedule = "" if self.schedule is None else f", schedule={schedule_text(self.schedule)}"
        scope = "" if self.scope == "tensor" else f", scope={self.scope!r}"
        return f"{{{ratios}}}, warmup={self.warmup}{base}{schedule}{scope}"
