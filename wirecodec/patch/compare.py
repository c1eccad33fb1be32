"""Comparison of two states: the tensors that differ, and where, with the digests of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from wirecodec.arrays import Array
from wirecodec.container import extension_writer as ext
from wirecodec.errors import EncodeError
from wirecodec.patch import digest
from wirecodec.patch.bits import Bits, Forms
from wirecodec.patch.host import HOST
from wirecodec.patch.states import Kind, bring_together, divide, kind_of, read_bits
from wirecodec.patch.threads import map_in_threads, thread_count

Progress: TypeAlias = Callable[[float], object]
"""Function that is called with the completed fraction of the work."""
MAX_SIZE = 2**32
_BATCHES = 2
"""Batches of tensors for each thread, between two times when a caller can take out changes."""
_NOTHING = np.empty(0, np.uint8)
_PROBED = 2**16
"""Elements that tell whether a tensor may be equal, before its digest is found."""


def ignore(fraction: float) -> None:
    """Show no progress."""


@dataclass(frozen=True, eq=False)
class Change:
    """Tensor that differs.

    Attributes:
        name: of the tensor.
        old: its old bits; None if it is written whole.
        new: its new bits.
        indices: (r,) u32, where they differ; empty if it is written whole.
        olds, values: (r,) unsigned, the old and the new bits there.
        digests: of the old and of the new tensor, or of their changed elements.
        whole: digest of the new tensor; 0 if it is unknown.
    """

    name: str
    old: Bits | None
    new: Bits
    indices: Array
    olds: Array
    values: Array
    digests: tuple[int, int]
    whole: int = 0

    @property
    def kind(self) -> Kind:
        """Properties of the element type."""
        return kind_of(self.new.dtype)


@dataclass(eq=False)
class Difference:
    """Changes between two states, in the order of the names' UTF-8 bytes.

    Attributes:
        changes: of tensors.
        removed: {name: digest} of tensors that the new state lacks.
        unchanged: number of all others.
        rest: sum of their digests with their names.
        target: digest of the new state; 0 if it is unknown.
        seals: {name: digest} of the new state's tensors; empty if they are unknown.
    """

    changes: list[Change] = field(default_factory=list)
    removed: dict[str, int] = field(default_factory=dict)
    unchanged: int = 0
    rest: int = 0
    target: int = 0
    seals: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Pair:
    """Tensor of both states, with equal type and shape.

    Attributes:
        name: of the tensor.
        old, new: its bits.
        together: both in one memory.
    """

    name: str
    old: Bits
    new: Bits
    together: Sequence[Bits]


_Result: TypeAlias = "Change | int"
"""Change of a tensor, or its digest if it is equal or gone."""


def compare(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    touched: bool,
    sealed: bool = False,
    seals: Mapping[str, int] | None = None,
    progress: Progress = ignore,
) -> Difference:
    """Find the changes between two states; a tensor of a device is copied once.

    Args:
        old: {name: tensor}.
        new: the same of after.
        touched: whether readers of the patch look at changed elements alone.
        sealed: whether to find the digests of the new state and of its tensors.
        seals: {name: digest} of tensors of the old state that are known; one that has not changed is then
            found by its digest, without a reading of the old one.
        progress: is called with the completed fraction.
    """
    found = Difference()
    for completed in fill(found, old, new, touched=touched, sealed=sealed, seals=seals):
        progress(completed)
    return found


def fill(
    found: Difference,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    touched: bool,
    sealed: bool = False,
    seals: Mapping[str, int] | None = None,
) -> Iterator[float]:
    """Add the changes between two states to a difference.

    Yields the completed fraction after some tensors. The caller may take the changes out then, so that the
    bits of few tensors are in memory.
    """
    names, total, done = sorted({*old, *new}, key=_order), 0, 0
    batches = divide(names, {**old, **new})
    at_once = _BATCHES * thread_count()
    for first in range(0, len(batches), at_once):
        some = batches[first : first + at_once]
        every = map_in_threads(
            lambda batch: _compare_batch(batch, old, new, seals or {}, touched=touched, sealed=sealed), some
        )
        for batch, results in zip(some, every, strict=True):
            for name, result in zip(batch, results, strict=True):
                if sealed and name in new:
                    found.seals[name] = result.whole if isinstance(result, Change) else result
                    total += digest.digest_named(name, found.seals[name])
                if isinstance(result, Change):
                    found.changes.append(result)
                elif name not in new:
                    found.removed[name] = result
                elif not touched:
                    found.unchanged += 1
                    found.rest = (found.rest + digest.digest_named(name, result)) & digest.MASK
            done += len(batch)
        yield done / len(names)
    if sealed:
        found.target = digest.close(total & digest.MASK, len(new))


def _order(name: Any) -> bytes:
    """Return the bytes by which names are sorted. Raises EncodeError for one that containers cannot hold."""
    try:
        encoded: bytes = name.encode()
    except (AttributeError, UnicodeEncodeError):
        raise EncodeError(f"name is {name!r}; it must be a string of UTF-8") from None
    if len(encoded) > 65_535:
        raise EncodeError(f"name {name[:20]!r}… has {len(encoded)} bytes; it must have at most 65535")
    return encoded


def _compare_batch(
    names: Sequence[str],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    seals: Mapping[str, int],
    *,
    touched: bool,
    sealed: bool,
) -> list[_Result]:
    """Return the result of each tensor."""
    results: dict[str, _Result] = {}
    groups: dict[Any, list[_Pair]] = {}
    for name in names:
        before = read_bits(name, old[name]) if name in old else None
        if name not in new:
            assert before is not None
            results[name] = digest.digest_tensor(before)
            continue
        after = read_bits(name, new[name])
        ext.check_shape(after.shape)
        if after.bits.size >= MAX_SIZE:
            raise EncodeError(
                f"it has {after.bits.size} elements; there must be fewer than 2^32", tensor=name
            )
        if before is None or (before.dtype, before.shape) != (after.dtype, after.shape):
            one, other = 0 if before is None else digest.digest_tensor(before), digest.digest_tensor(after)
            results[name] = _replace(name, after, (one, other), other)
            continue
        pair = _Pair(name, before, after, bring_together([before, after]))
        known = seals.get(name)
        if known is not None and _may_be_equal(pair) and digest.digest_tensor(pair.together[1]) == known:
            results[name] = known
            continue
        group = after.bits.dtype, touched and after.dtype.kind != "c", pair.together[0].forms
        groups.setdefault(group, []).append(pair)
    for (_, is_touched, forms), pairs in groups.items():
        found = _compare_pairs(pairs, forms, touched=is_touched, sealed=sealed)
        results.update(zip([pair.name for pair in pairs], found, strict=True))
    return [results[name] for name in names]


def _may_be_equal(pair: _Pair) -> bool:
    """Return whether the first elements of two tensors of the host are equal; False for those of a GPU."""
    old, new = pair.together
    return old.forms is HOST and np.array_equal(old.bits[:_PROBED], new.bits[:_PROBED])


def _compare_pairs(pairs: Sequence[_Pair], forms: Forms, *, touched: bool, sealed: bool) -> Iterator[_Result]:
    """Yield the result of each tensor; all are in one memory, and have elements of one width."""
    olds, news = zip(*(p.together for p in pairs), strict=True)
    (indices, before, after), cuts, sums = forms.find_changes(olds, news, digests=not touched)
    described, ends = digest.describe_all([pair.new for pair in pairs]), cuts.tolist()
    if touched:
        starts = np.zeros(len(pairs) + 1, np.int64)
        sums = np.stack([digest.sum_touched(starts, cuts, indices, x) for x in (before, after)])
        seals = digest.seal_touched(sums, described, np.diff(cuts))
    else:
        seals = digest.seal_all(sums, described, news)
    for pair, one, other, a, b in zip(pairs, *seals.tolist(), ends, ends[1:], strict=False):
        whole = other
        if touched:
            whole = digest.digest_tensor(pair.new) if sealed else 0
        if a == b:
            yield whole
        elif pair.new.dtype.kind == "c":
            yield _replace(pair.name, pair.new, (one, other), whole)
        else:
            changes = indices[a:b], before[a:b], after[a:b]
            yield Change(pair.name, pair.old, pair.new, *changes, (one, other), whole)


def _replace(name: str, after: Bits, digests: tuple[int, int], whole: int) -> Change:
    """Return the change of a tensor that is written whole."""
    return Change(name, None, after, _NOTHING, _NOTHING, _NOTHING, digests, whole)


def digest_present(change: Change, spans: Sequence[tuple[int, int, bool]]) -> tuple[int, int]:
    """Return the digests of the elements that a touched patch has of a tensor, old and new.

    Args:
        change: of the tensor.
        spans: first element of each part, the one behind its last, and whether the patch has all of the part;
            it has those that change otherwise.
    """
    assert change.old is not None
    ends, sums, r = np.array([0, change.new.bits.size]), np.zeros((2, 1), np.uint64), 0
    sides = [bits.copy_to_host() for bits in (change.old, change.new)]
    for start, stop, has_all in spans:
        here = slice(*np.searchsorted(change.indices, np.array([start, stop], np.uint32)))
        indices = np.arange(start, stop, dtype=np.uint32) if has_all else change.indices[here]
        parts = [x[start:stop] for x in sides] if has_all else [change.olds[here], change.values[here]]
        cuts = np.array([0, indices.size])
        sums += np.stack([digest.sum_touched(ends, cuts, indices, part) for part in parts])
        r += indices.size
    old, new = digest.seal_touched(sums, digest.describe_all([change.new]), np.array([r])).ravel().tolist()
    return old, new
