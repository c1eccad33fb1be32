"""Candidates of ``wirecodec advise``: schemes, and exchanges with a method of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass

import wirecodec as wc
from wirecodec.cli.options import parse_scheme
from wirecodec.interop import as_integer, as_ratio

_CLT_K = re.compile(r"\s*clt-k\(([^)]*)\)\s*")
_OK_TOPK = re.compile(r"\s*ok-topk\s*\|(.*)", re.DOTALL)
_POWERSGD = re.compile(r"\s*powersgd\(([^)]*)\)\s*")
_LOCAL = re.compile(r"\s*local-updates\(([^)]*)\)\s*\|(.*)", re.DOTALL)

COMMON = (
    "all | raw-index | raw(bfloat16)",
    "all | raw-index | qsgd(bits=8)",
    "all | raw-index | qsgd",
    *(
        f"topk({ratio}) | rice | {value}"
        for ratio in (0.1, 0.01, 0.001)
        for value in ("raw(bfloat16)", "qsgd")
    ),
    "topk(0.01) | rice | sign-scale",
    "budget(0.25) | rice | error-bounded",
    "clt-k(0.01)",
    "ok-topk | topk(0.01) | rice | qsgd",
    "powersgd(4)",
    "local-updates(15) | topk(0.01) | rice | qsgd",
)
"""Candidates that are compared if none is given. They have few kernels, which are compiled on first use."""

MORE = (
    "all | raw-index | offset-float",
    "all | raw-index | 3lc",
    *(f"topk({ratio}) | auto-index | raw" for ratio in (0.1, 0.01, 0.001)),
    "topk(0.01) | auto-index | error-bounded",
    "sidco(0.01) | rice | qsgd",
    "rfft | topk(0.15) | auto-index | offset-float(bits=10)",
    *("sketchml", "skcompress", "deepreduce-qsgd-bf-p0"),
)
"""Further schemes and presets, for ``--all``."""


@dataclass(frozen=True)
class Candidate:
    """Way to exchange gradients.

    Attributes:
        scheme: of an encoding; for CLT-k, of the leader's elements; unused by PowerSGD.
        name: in the tables.
        leads: whether one rank selects for all (CLT-k).
        every: steps between two exchanges; more than 1 for local updates.
        owns: whether owners of ranges choose what all ranks receive (Ok-Topk).
        rank: of PowerSGD's factors; 0 for anything else.
    """

    scheme: wc.Scheme
    name: str
    leads: bool = False
    every: int = 1
    owns: bool = False
    rank: int = 0

    @property
    def is_whole(self) -> bool:
        """Return whether all tensors are one vector, as with ``scope="group"``, which suits a budget best."""
        return isinstance(self.scheme.select, wc.selectors.Budget)


def limit_bytes(nbytes: float, elements: float) -> Candidate:
    """Return the candidate of ``Compressor(bytes_per_step=…)``: a budget for all elements as one vector.

    Examples:
        >>> str(limit_bytes(1000, 8000).scheme)
        'budget(1.0) | rice | error-bounded'
    """
    scheme = wc.Scheme.parse(f"budget(bits={8 * nbytes / elements!r}) | rice | error-bounded")
    return Candidate(scheme, f"bytes_per_step={nbytes:,.0f}")


def parse_candidate(text: str) -> Candidate:
    """Parse a scheme or a preset, or a method: see ``COMMON`` for their forms.

    Raises:
        EncodeError: the text is none of these, or a number is out of range.

    Examples:
        >>> parse_candidate("local-updates(15) | dgc").every
        15
    """
    if match := _CLT_K.fullmatch(text):
        ratio = as_ratio(_parse_number(match[1], "clt-k: ratio"), "clt-k: ratio")
        return Candidate(parse_scheme(f"topk({ratio!r}) | rice | raw"), f"clt-k({ratio:g})", leads=True)
    if match := _POWERSGD.fullmatch(text):
        rank = as_integer(_parse_number(match[1], "powersgd: rank"), "powersgd: rank")
        if rank < 1:
            raise wc.EncodeError(f"powersgd: rank is {rank}; it must be 1 or more")
        return Candidate(parse_scheme("all | raw-index | raw"), f"powersgd({rank})", rank=rank)
    if match := _OK_TOPK.fullmatch(text):
        scheme = parse_scheme(match[1].strip())
        if scheme.transform is not None:
            raise wc.EncodeError("ok-topk sends elements of the gradient; a transform has coefficients")
        return Candidate(scheme, f"ok-topk | {scheme}", owns=True)
    if match := _LOCAL.fullmatch(text):
        scheme, steps = parse_scheme(match[2].strip()), "local-updates: steps"
        every = as_integer(_parse_number(match[1], steps), steps)
        if every < 2:
            raise wc.EncodeError(f"{steps} is {every}; it must be 2 or more")
        return Candidate(scheme, f"local-updates({every}) | {scheme}", every=every)
    scheme = parse_scheme(text)
    return Candidate(scheme, str(scheme))


def _parse_number(text: str, name: str) -> float | int:
    try:
        number = float(text)
    except ValueError:
        raise wc.EncodeError(f"{name} is {text!r}; it must be a number") from None
    return int(number) if number.is_integer() else number
