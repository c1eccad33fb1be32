"""Result of ``compare``: a sequence of rows, printed as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, overload

ERROR = "error: relative error, the norm of the part of a gradient that is lost over that of the gradient."
"""Definition of the error that all commands show."""

_WAYS = {False: "each alone", True: "as one"}
_BEST = {
    "": "each other row has more bits or a larger error",
    "bits": "the least error",
    "error": "the fewest bits",
}
_LEFT = 4
"""Columns that are aligned to the left: the mark, the preset, the scheme and the tensors."""


@dataclass(frozen=True)
class Comparison:
    """A scheme, measured on a gradient.

    Attributes:
        name: as given: a preset or a scheme.
        scheme: its stages.
        together: whether all tensors were one vector.
        bits: of the container per element of the gradient.
        relative_error: ‖x - y‖ / ‖x‖ of the gradient x and what arrives, y; 0 if x is 0. Error feedback sends
            later what is missing.
        density: stored elements, or numbers of stored coefficients, over the elements of the gradient.
        encode, decode: seconds on this machine; nan if they were not measured.
        refusal: why the scheme cannot encode this gradient, or not at the bits or the error asked for; an
            empty string if it can. The numbers are then nan.
        note: warnings of the scheme, and the selected elements over those of its ratio if they differ by more
            than a factor of 1.5; or an empty string.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> row = wc.compare(np.array([4, 0, 3], np.float32), ["topk(k=1) | rice | raw"], seconds=0)[0]
        >>> round(row.relative_error, 6), round(row.density, 2)
        (0.6, 0.33)
    """

    name: str
    scheme: str
    together: bool
    bits: float
    relative_error: float
    density: float = float("nan")
    encode: float = float("nan")
    decode: float = float("nan")
    refusal: str = ""
    note: str = ""

    @property
    def error(self) -> float:
        """Return the square of ``relative_error``."""
        return self.relative_error**2


@dataclass(frozen=True)
class ComparisonTable(Sequence[Comparison]):
    """Sequence of comparisons, which ``print`` shows as a table.

    ``*`` marks the rows that no other row surpasses: each other one has more bits or a larger error.

    At equal bits or equal errors, which agree within 1 % only, it marks the least error or the fewest bits.

    Attributes:
        rows: a Comparison for each scheme and way.
        equal: "bits" or "error" if all rows have the same, or an empty string.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> gradient = np.random.default_rng(0).laplace(size=20_000).astype(np.float32)
        >>> print(str(wc.compare(gradient, ["terngrad"], seconds=0)).partition("error:")[0].rstrip())
           preset    scheme                           density  bits  error
        *  terngrad  all | raw-index | terngrad(2.5)    100 %  1.63  0.938
    """

    rows: tuple[Comparison, ...]
    equal: Literal["", "bits", "error"] = ""

    @overload
    def __getitem__(self, index: int) -> Comparison: ...

    @overload
    def __getitem__(self, index: slice) -> ComparisonTable: ...

    def __getitem__(self, index: int | slice) -> Comparison | ComparisonTable:
        """Return a row, or the table of several."""
        return ComparisonTable(self.rows[index], self.equal) if isinstance(index, slice) else self.rows[index]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Comparison]:
        """Yield the rows."""
        return iter(self.rows)

    def __str__(self) -> str:
        """Format the rows as a table, with the schemes that refuse the gradient after it."""
        measured = [row for row in self.rows if not row.refusal]
        titles = ["", "preset", "scheme", "tensors", "density", "bits", "error", "encode", "decode"]
        cells = [_format_row(row, not is_surpassed(row, measured, self.equal)) for row in measured]
        several = len({row.together for row in self.rows}) > 1
        timed = not all(math.isnan(row.encode) for row in measured)
        shown = [
            number
            for number, title in enumerate(titles)
            if (several or title != "tensors") and (timed or title not in ("encode", "decode"))
        ]
        notes = {(row.name, _WAYS[row.together]): row.note for row in measured if row.note}
        return "\n".join(
            [
                *_align([titles, *cells], shown),
                ERROR,
                f"density: stored elements over all. *: {_BEST[self.equal]}.",
                *(f"{name}, {way}: {text}" for (name, way), text in notes.items()),
                *_format_refusals(self.rows),
            ]
        )


def is_surpassed(row: Comparison, rows: Sequence[Comparison], equal: str = "") -> bool:
    """Return whether another row is better in bits or in error, and in neither of them worse.

    If one of the two is ``equal`` within a tolerance, the other one decides.
    """
    if equal:
        other_of = attrgetter("relative_error" if equal == "bits" else "bits")
        return bool(other_of(row) > min(map(other_of, rows)))
    at = row.bits, row.relative_error
    others = ((other.bits, other.relative_error) for other in rows)
    return any(other != at and other[0] <= at[0] and other[1] <= at[1] for other in others)


def _format_refusals(rows: Sequence[Comparison]) -> list[str]:
    """Format a line per scheme that is not measured; with its ways if they have different reasons."""
    reasons: dict[str, dict[str, str]] = {}
    for row in rows:
        reasons.setdefault(row.name, {})[_WAYS[row.together]] = row.refusal
    lines = []
    for name, of_name in reasons.items():
        given = {way: text for way, text in of_name.items() if text}
        one, *others = set(of_name.values())
        texts = [one] if not others else [f"{way}: {text}" for way, text in given.items()]
        if given:
            lines.append(f"{name}: not measured: {'; '.join(texts)}")
    return lines


def _format_row(row: Comparison, is_best: bool) -> list[str]:
    preset = "" if "|" in row.name else row.name
    times = ["-" if math.isnan(x) else f"{1e3 * x:.3g} ms" for x in (row.encode, row.decode)]
    figures = [f"{100 * row.density:.3g} %", f"{row.bits:.3g}", f"{row.relative_error:.3g}"]
    return ["*" if is_best else "", preset, row.scheme, _WAYS[row.together], *figures, *times]


def _align(rows: Sequence[Sequence[str]], shown: Sequence[int]) -> list[str]:
    """Align some columns of a table."""
    widths = [max(len(row[number]) for row in rows) for number in shown]
    lines = []
    for row in rows:
        cells = zip(shown, widths, strict=True)
        parts = (row[n].ljust(width) if n < _LEFT else row[n].rjust(width) for n, width in cells)
        lines.append("  ".join(parts).rstrip())
    return lines
