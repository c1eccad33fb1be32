"""Fragments: groups of parameters that are exchanged at different steps of a period.

Fragment f of P is exchanged after inner step t if t mod H = floor(f H / P), so that an exchange has a P-th of
the bytes.

Source:
    Douillard et al., 2025, Streaming DiLoCo with overlapping communication (arXiv 2501.18512), section 2.2.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any

Fragments = int | Sequence[str | Sequence[str]]
"""Number of fragments; or for each a glob, or several."""
Groups = int | tuple[str | tuple[str, ...], ...]
"""The same with tuples, which are equal on ranks that passed lists and tuples."""


def freeze_fragments(fragments: Any) -> Groups:
    """Return fragments as an argument of ``LocalUpdates`` gives them, with tuples.

    Raises TypeError if they are neither a number nor globs.
    """
    if isinstance(fragments, bool) or not isinstance(fragments, int | Sequence) or isinstance(fragments, str):
        raise TypeError(f"fragments is {fragments!r}; pass a number of fragments, or a list of globs")
    if isinstance(fragments, int):
        return fragments
    return tuple(_freeze_group(number, group) for number, group in enumerate(fragments))


def _freeze_group(number: int, group: Any) -> str | tuple[str, ...]:
    if isinstance(group, str):
        return group
    if isinstance(group, Sequence) and all(isinstance(glob, str) for glob in group):
        return tuple(group)
    raise TypeError(f"fragments[{number}] is {group!r}; it must be a glob, or a list of globs")


def divide_parameters(sizes: Mapping[str, int], fragments: Fragments) -> list[list[str]]:
    """Return the names of each fragment.

    Args:
        sizes: {name: elements}, in order.
        fragments: a number: runs of parameters with about equally many elements. Globs or names, or lists of
            these: a parameter belongs to the first fragment that matches.

    Raises:
        TypeError: it is neither.
        ValueError: there are fewer parameters than fragments, a fragment or a glob of a list has no
            parameter, or a parameter belongs to no fragment.
    """
    groups = freeze_fragments(fragments)
    if not isinstance(groups, int):
        return _match(sizes, groups)
    if not 1 <= groups <= len(sizes):
        raise ValueError(f"fragments is {groups}; it must be 1 to {len(sizes)}, the number of parameters")
    names, ends = list(sizes), list(accumulate(sizes.values(), initial=0))
    cuts = [0]
    for number in range(1, groups):
        least, most = cuts[-1] + 1, len(names) - (groups - number)
        wanted = ends[-1] * number / groups
        cuts.append(min(range(least, most + 1), key=lambda cut: abs(ends[cut] - wanted)))
    return [names[start:stop] for start, stop in zip(cuts, [*cuts[1:], len(names)], strict=True)]


def summarize_fragments(fragments: Sequence[Sequence[str]]) -> int:
    """Return a CRC-32 of the names of each fragment, in any order within it; 0 for one fragment."""
    if len(fragments) == 1:
        return 0
    return zlib.crc32(repr([sorted(names) for names in fragments]).encode())


def _match(names: Mapping[str, int], groups: Sequence[str | tuple[str, ...]]) -> list[list[str]]:
    if not groups:
        raise ValueError("fragments is empty; pass 1, or a glob per fragment")
    globs = [(one,) if isinstance(one, str) else one for one in groups]
    found: list[list[str]] = [[] for _ in groups]
    for name in names:
        places = [number for number, group in enumerate(globs) if any(_fits(name, glob) for glob in group)]
        if not places:
            raise ValueError(f"parameter {name!r} belongs to no fragment; add '*' as the last glob")
        found[places[0]].append(name)
    for one, members in zip(groups, found, strict=True):
        if not members:
            raise ValueError(f"no parameter belongs to the fragment {one!r}")
    for glob in (glob for group in globs for glob in group):
        if not any(_fits(name, glob) for name in names):
            raise ValueError(f"fragments has {glob!r}, which matches no parameter")
    return found


def _fits(name: str, glob: str) -> bool:
    """Return whether a parameter is meant: names with brackets are not globs of themselves."""
    return name == glob or fnmatchcase(name, glob)


def make_schedule(every: int, count: int) -> dict[int, int]:
    """Return {inner step: fragment that is exchanged after it}.

    Args:
        every: steps of a period, which count from 1.
        count: number of fragments, at most ``every``.
    """
    return {fragment * every // count or every: fragment for fragment in range(count)}
