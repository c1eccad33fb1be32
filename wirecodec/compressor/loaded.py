"""Comparison of a loaded state with the training that continues it: its rank, and the names of its tensors.

A state does not show at once whether it fits. The rank and the names are known at the first step, so they are
compared then. Loaded residuals of other names would stay unused, and those of another rank would count twice.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wirecodec.errors import EncodeError

UNKNOWN_RANK = -1
"""Rank of a state that was saved before the first step, or by an older version."""

MAX_LISTED = 3
_KIND = re.compile(r"(residual|momentum|selector|parameter|carried|delayed_mean/\d+)/")
_NESTED = "compressor/"


@dataclass(frozen=True)
class Loaded:
    """Part of a loaded state that is not compared yet.

    Attributes:
        rank: the rank that saved it, or UNKNOWN_RANK.
        is_strict: whether arrays that do not fit are an error; they are dropped otherwise.
        names_fit: whether the names are compared already.
    """

    rank: int
    is_strict: bool
    names_fit: bool = False

    def find_dropped(self, kept: Collection[str], rank: int, names: Collection[str]) -> set[str]:
        """Compare the state at the first step; return the names of the arrays to drop.

        Warns if names do not fit, and the comparison is strict: this step may be one of several in turn.

        Args:
            kept: names of the tensors that have arrays in the state.
            rank, names: of the step, and of its tensors.

        Raises EncodeError if the state is of another rank, and the comparison is strict.
        """
        if self.rank not in (UNKNOWN_RANK, rank):
            if self.is_strict:
                raise EncodeError(
                    f"the loaded state was saved by rank {self.rank}, and this is rank {rank}: load this"
                    " rank's own file, or load this one with strict=False, which takes the step and drops the"
                    f" residuals. If ranks were renumbered, load wc.rename_state(state, rank={rank})"
                )
            return set(kept)
        stale = self._find_stale(kept, names)
        if stale and self.is_strict:
            warnings.warn(_describe_stale(stale, names), stacklevel=4)
            return set()
        return stale

    def find_unnamed(self, kept: Collection[str], names: Collection[str]) -> set[str]:
        """Compare ``kept`` with all names of a training; return those of the arrays to drop.

        Raises EncodeError if the state has other names, and the comparison is strict.
        """
        stale = self._find_stale(kept, names)
        if stale and self.is_strict:
            raise EncodeError(_describe_stale(stale, names))
        return stale

    def with_names(self) -> Loaded:
        """Return the part that is left if the names are compared."""
        return replace(self, names_fit=True)

    def _find_stale(self, kept: Collection[str], names: Collection[str]) -> set[str]:
        return set() if self.names_fit else set(kept).difference(names)


def _describe_stale(stale: Collection[str], names: Collection[str]) -> str:
    """Describe arrays of a loaded state that belong to no tensor, and the way to continue.

    Args:
        stale: names in the state.
        names: of the tensors.
    """
    return (
        f"the loaded state has tensors that this training does not have: {_list(stale)}; its tensors are"
        f" {_list(names)}. {_advise(stale, names)} with strict=False, which drops their residuals"
    )


def _list(names: Collection[str]) -> str:
    """List some names, and how many there are."""
    listed = sorted(names)
    shown = ", ".join(map(repr, listed[:MAX_LISTED]))
    return shown if len(listed) <= MAX_LISTED else f"{shown}, … ({len(listed)} of them)"


def _advise(stale: Collection[str], names: Collection[str]) -> str:
    """Return the start of an advice: how to rename, if a prefix explains all names."""
    one, wanted = min(stale), set(names)
    for name in sorted(wanted):
        if one.endswith(name) and all(x.removeprefix(one[: -len(name)]) in wanted for x in stale):
            return f"Load wc.rename_state(state, prefix={one[: -len(name)]!r}), or load it"
        if name.endswith(one) and all(name[: -len(one)] + x in wanted for x in stale):
            return f"Load wc.rename_state(state, add={name[: -len(one)]!r}), or load it"
    if any("_orig_mod." in x for x in stale):
        return "Load wc.rename_state(state, lambda name: name.replace('_orig_mod.', '')), or load it"
    return "Rename them by wc.rename_state, or load the state"


def rename_state(
    state: Mapping[str, Any],
    names: Mapping[str, str] | Callable[[str], str] | None = None,
    *,
    prefix: str = "",
    add: str = "",
    rank: int | None = None,
) -> dict[str, Any]:
    """Rename the tensors in a state of a Compressor, CLT-k, gTop-k or LocalUpdates, or its rank.

    Args:
        state: from ``state_dict`` or ``co.torch_state_dict``; it is not changed.
        names: {old name: new name}, or a function from old to new names; names that a mapping does not have
            stay.
        prefix: removed from names that start with it, such as "module." or "_orig_mod.".
        add: put in front of all names afterwards.
        rank: the rank that continues with this state, if ranks were renumbered; at most one rank may continue
            with it. None to keep the rank.

    Returns:
        A dict of the same arrays under new keys, for ``load_state_dict``.

    Raises:
        ValueError: two tensors would get the same name, or a key is no string.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> list(wc.rename_state({"step": 3, "residual/module.w": np.zeros(2)}, prefix="module."))
        ['step', 'residual/w']
    """
    rename = names if callable(names) else lambda name: (names or {}).get(name, name)
    renamed: dict[str, Any] = {}
    if rank is not None:
        own = {"rank", f"{_NESTED}rank"} & state.keys()
        state = {**state, **dict.fromkeys(own, np.array(rank, np.int64))}
    for key, x in state.items():
        if not isinstance(key, str):
            raise ValueError(f"not a state: its keys are strings, and one is {key!r}")
        outer = _NESTED if key.startswith(_NESTED) else ""
        inner = key.removeprefix(outer)
        if kind := _KIND.match(inner):
            inner = kind[0] + add + rename(inner[kind.end() :]).removeprefix(prefix)
        if outer + inner in renamed:
            raise ValueError(f"two tensors of the state would be called {outer + inner!r}")
        renamed[outer + inner] = x
    return renamed
