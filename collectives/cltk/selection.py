"""The schemes with which CLT-k's leader chooses: a selector and an index codec per tensor, and a schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import wirecodec as wc
from wirecodec.interop import as_integer, as_scheme, find_match, key_text, restore_schedule, schedule_text

_ALL, _MEAN = wc.selectors.All(), wc.codecs.Mean()


class LeaderSelectors:
    """Selectors of all tensors.

    Args:
        scheme: a ratio, a scheme, or {key: either}; a key is a glob or a Rule.
        schedule: function (step, ratio) -> ratio, or None.
        scope: "tensor", or "group" for one selection from all tensors of a key.
        warmup: number of initial steps that send everything.

    Raises:
        EncodeError: an argument is out of range, or CLT-k cannot take a scheme.
    """

    def __init__(self, scheme: Any, schedule: Any = None, scope: str = "tensor", warmup: int = 0) -> None:
        given = scheme if isinstance(scheme, Mapping) else {"*": scheme}
        self._schemes = {key: _read_scheme(one) for key, one in given.items()}
        if scope not in ("tensor", "group"):
            raise wc.EncodeError(f'scope is {scope!r}; it must be "tensor" or "group"')
        self.scope = scope
        if schedule is not None:  # the checks are a Compressor's
            wc.Compressor("topk(0.5) | rice | raw", schedule=schedule)
        self.schedule = schedule
        self._warmup = as_integer(warmup, "warmup")
        if self._warmup < 0:
            raise wc.EncodeError(f"warmup is {warmup!r}; it must be at least 0")

    @property
    def has_gpu_kernels(self) -> bool:
        """Whether the selection runs on a GPU."""
        kinds = wc.selectors.TopK | wc.selectors.All
        return all(isinstance(one.select, kinds) for one in self._schemes.values())

    @property
    def ratios(self) -> dict[Any, float]:
        """{key: ratio} without the schedule."""
        return {key: _ratio_of(one) for key, one in self._schemes.items()}

    def sends_raw(self, step: int) -> bool:
        """Tell whether nothing is selected in a step, as in a warm-up that holds."""
        holds = isinstance(self.schedule, wc.WarmUp) and self.schedule.sends_raw(step)
        return holds or step < self._warmup

    def at(self, name: str, shape: tuple[int, ...] | None, step: int) -> Any:
        """Return a tensor's selector at a step, or None if it is sent whole. Raises EncodeError."""
        scheme = find_match(name, shape, self._schemes, "scheme")
        if step < self._warmup:
            return None
        ratio, selector = _ratio_of(scheme), cast("Any", scheme.select)
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
        numbers = {key: number for number, key in enumerate(self._schemes)}
        number: int = find_match(name, shape, numbers, "scheme")
        return number

    def index_schemes(self, shapes: Mapping[str, tuple[int, ...]]) -> Any:
        """Return the scheme of the leader's indices; {name: scheme} if their index codecs differ.

        Args:
            shapes: {name: shape} of the tensors that are sparse in this step.
        """
        schemes = {key: wc.Scheme(_ALL, one.index, _MEAN) for key, one in self._schemes.items()}
        first, *others = schemes.values()
        if all(one == first for one in others):
            return first
        return {name: find_match(name, shape, schemes, "scheme") for name, shape in shapes.items()}

    def rehearsal(self, *, warm: bool) -> LeaderSelectors:
        """Return the selectors for a trial step: at the end of the schedule, or sending everything."""
        return LeaderSelectors(self._schemes, None, self.scope, int(warm))

    def restore(self, saved: Any) -> None:
        """Set the schedule of a loaded state, if it has one."""
        self.schedule = restore_schedule(saved, self.schedule)

    def __str__(self) -> str:
        schemes = ", ".join(f"{key_text(key)!r}: '{one}'" for key, one in self._schemes.items())
        schedule = "" if self.schedule is None else f", schedule={schedule_text(self.schedule)}"
        scope = "" if self.scope == "tensor" else f", scope={self.scope!r}"
        return f"{{{schemes}}}, warmup={self._warmup}{schedule}{scope}"


def _read_scheme(given: Any) -> wc.Scheme:
    """Return the scheme of a ratio, of text, or of a Scheme. Raises EncodeError if CLT-k cannot take it."""
    if not isinstance(given, str | wc.Scheme | None):
        return wc.Scheme(wc.selectors.TopK(ratio=given), wc.codecs.AutoIndex(), wc.codecs.Raw())
    scheme = as_scheme(given)
    if scheme.transform is not None or scheme.value != wc.codecs.Raw() or scheme.index.lossy:
        raise wc.EncodeError(
            f"scheme is '{scheme}'; CLT-k sums exact values: the last stage must be raw, the index codec"
            " lossless, and no transform may come first"
        )
    if not scheme.sends_all and getattr(scheme.select, "ratio", None) is None:
        raise wc.EncodeError(
            f"scheme is '{scheme}', whose selector has no ratio; use one that has, such as topk(0.01) or"
            " chunk-topk(0.01, 4096)"
        )
    return scheme


def _ratio_of(scheme: wc.Scheme) -> float:
    """Return the ratio of a scheme; 1 if it sends everything."""
    return float(getattr(scheme.select, "ratio", 1.0))
