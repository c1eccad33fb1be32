"""Fragments: groups of parameters that are exchanged at different steps of a period.

Fragment f of P is exchanged after inner step t if t mod H = floor(f H / P), so that an exchange has a P-th of
the bytes.

Source:
    Douillard et al., 2025, Streaming DiLoCo with overlapping communication (arXiv 2501.18512), section 2.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate

Fragments = int | Sequence[str]
"""Number of fragments, or a glob for each."""


def divide_parameters(sizes: Mapping[str, int], fragments: Fragments) -> list[list[str]]:
    """Return the names of each fragment.

    Args:
        sizes: {name: elements}, in order.
        fragments: a number: runs of parameters with about equally many elements. Globs: a parameter belongs
            to the first that matches.

    Raises:
        TypeError: it is neither.
        ValueError: there are fewer parameters than fragments, a glob has no parameter, or a parameter none.
    """
    if isinstance(fragments, bool) or not isinstance(fragments, int | Sequence) or isinstance(fragments, str):
        raise TypeError(f"fragments is {fragments!r}; pass a number of fragments, or a list of globs")
    if not isinstance(fragments, int):
        return _match(sizes, fragments)
    if not 1 <= fragments <= len(sizes):
        raise ValueError(f"fragments is {fragments}; it must be 1 to {len(sizes)}, the number of parameters")
    names, ends = list(sizes), list(accumulate(sizes.values(), initial=0))
    cuts = [0]
    for number in range(1, fragments):
        least, most = cuts[-1] + 1, len(names) - (fragments - number)
        wanted = ends[-1] * number / fragments
        cuts.append(min(range(least, most + 1), key=lambda cut: abs(ends[cut] - wanted)))
    return [names[start:stop] for start, stop in zip(cuts, [*cuts[1:], len(names)], strict=True)]


def _match(names: Mapping[str, int], globs: Sequence[str]) -> list[list[str]]:
    found: list[list[str]] = [[] for _ in globs]
    for name in names:
        places = [number for number, glob in enumerate(globs) if fnmatchcase(name, glob)]
        if not places:
            raise ValueError(f"parameter {name!r} belongs to no fragment; add '*' as the last glob")
        found[places[0]].append(name)
    for glob, members in zip(globs, found, strict=True):
        if not members:
            raise ValueError(f"no parameter belongs to the fragment {glob!r}")
    if not globs:
        raise ValueError("fragments is empty; pass 1, or a glob per fragment")
    return found


def make_schedule(every: int, count: int) -> dict[int, int]:
    """Return {inner step: fragment that is exchanged after it}.

    Args:
        every: steps of a period, which count from 1.
        count: number of fragments, at most ``every``.
    """
    return {fragment * every // count or every: fragment for fragment in range(count)}
