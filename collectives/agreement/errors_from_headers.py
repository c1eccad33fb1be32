"""From the table of headers, and the ranks' texts, to one CollectiveError that reads the same on every rank.

Everything here is a pure function of what all ranks have seen alike (formats/spec/agreement.md, section 4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from operator import attrgetter

from collectives.agreement.header import (
    DTYPE_CODES,
    MAGIC,
    MAX_TEXT,
    NO_DETAIL,
    VERSION,
    Algorithm,
    Header,
    Operation,
    Reduction,
    Status,
)
from collectives.errors import CollectiveError, name_ranks

__all__ = ["agreed", "decide", "unreadable"]

# The fields that must be equal, in the order in which differences are reported, and each one's reason.
_COMPARED = (
    ("sequence", ("sequence",)),
    ("operation", ("operation", "reduction", "algorithm")),
    ("dtype", ("dtype",)),
    ("shape", ("elements", "signature")),
    ("scheme", ("scheme",)),
)
_REASONS = {
    Status.ENCODE: "encode",
    Status.VALUE: "value",
    Status.ARGUMENT: "argument",
    Status.DECODE: "decode",
}
_EXCERPT = 120  # characters of a rank's tensors that an error message shows


def agreed(table: Sequence[Header]) -> bool:
    """Whether all ranks can, and want the same."""
    first = table[0]
    wanted = _all_fields(first)
    return first[:3] == (MAGIC, VERSION, Status.OK) and all(
        header is first or (header[:3] == first[:3] and _all_fields(header) == wanted) for header in table
    )


def unreadable(table: Sequence[Header]) -> CollectiveError | None:
    """Where a header is none of this version, nothing in it can be trusted: there is no second exchange."""
    wrong = [
        rank
        for rank, header in enumerate(table)
        if header.magic != MAGIC or header.version != VERSION or header.text_len > MAX_TEXT
    ]
    if not wrong:
        return None
    seen = table[wrong[0]]
    what = (
        f"magic {seen.magic.hex(' ')}"
        if seen.magic != MAGIC
        else f"version {seen.version}, text of {seen.text_len} bytes"
    )
    return CollectiveError(
        f"{name_ranks(wrong)}: not a header of version {VERSION} ({what}); the ranks run different software",
        ranks=wrong,
        reason="protocol",
    )


def decide(table: Sequence[Header], texts: Sequence[str]) -> CollectiveError:
    """The error of a readable table without agreement: of failed ranks, or else of the first difference."""
    failed = [rank for rank, header in enumerate(table) if header.status != Status.OK]
    if failed:
        return _failed(table, texts, failed)
    for reason, fields in _COMPARED:
        groups: dict[tuple[int, ...], list[int]] = {}
        for rank, header in enumerate(table):
            groups.setdefault(tuple(getattr(header, field) for field in fields), []).append(rank)
        if len(groups) > 1:
            return _differ(reason, list(groups.values()), table, texts)
    raise AssertionError("the table is agreed")


_all_fields: Callable[[Header], tuple[int, ...]] = attrgetter(
    *(field for _, fields in _COMPARED for field in fields)
)


def _failed(table: Sequence[Header], texts: Sequence[str], failed: Sequence[int]) -> CollectiveError:
    groups: dict[tuple[int, int, str], list[int]] = {}
    for rank in failed:
        groups.setdefault((table[rank].status, table[rank].detail, texts[rank]), []).append(rank)
    parts = []
    at_fault: set[int] = set()
    for (status, detail, text), ranks in groups.items():
        if status == Status.DECODE and detail < len(table):
            at_fault.add(detail)
            parts.append(f"{name_ranks([detail])}: its bytes are refused by {name_ranks(ranks)}: {text}")
            continue
        at_fault.update(ranks)
        what = "wrong argument" if status == Status.ARGUMENT else "encoding failed"
        at = "" if detail == NO_DETAIL else f" at element {detail}"
        parts.append(f"{name_ranks(ranks)}: {what}{at}: {text}")
    status = table[failed[0]].status
    reason = _REASONS[Status(status)] if status in set(Status) else "encode"
    return CollectiveError("; ".join(parts), ranks=at_fault, reason=reason)


def _differ(
    reason: str, groups: Sequence[Sequence[int]], table: Sequence[Header], texts: Sequence[str]
) -> CollectiveError:
    """The error of ranks that differ: the largest group is right, of equal ones that with the lowest rank.

    Args:
        reason: what they differ in.
        groups: ranks that agree with each other, ascending by their lowest rank.
        table: every rank's header.
        texts: every rank's text.
    """
    right = max(groups, key=len)
    parts = []
    for wrong in groups:
        if wrong is not right:
            theirs, ours = _describe(reason, [(table[ranks[0]], texts[ranks[0]]) for ranks in (wrong, right)])
            parts.append(f"{name_ranks(wrong)}: {theirs}, where {name_ranks(right)}: {ours}")
    wrong_ranks = [rank for ranks in groups if ranks is not right for rank in ranks]
    return CollectiveError("; ".join(parts), ranks=wrong_ranks, reason=reason)


def _describe(reason: str, pair: Sequence[tuple[Header, str]]) -> list[str]:
    """What two headers say about the field in which they differ.

    Where a header has only a hash, in the ranks' own words.
    """
    if reason == "sequence":
        return [f"exchange {header.sequence}" for header, _ in pair]
    if reason == "operation":
        return [_operation(header) for header, _ in pair]
    if reason == "scheme":
        return [f"scheme {text.partition(chr(10))[0]}" for _, text in pair]
    names = {0: "none"} | {code: name for name, code in DTYPE_CODES.items()}
    if reason == "dtype" and all(header.dtype in names for header, _ in pair):
        return [f"dtype {names[header.dtype]}" for header, _ in pair]
    return [f"tensors {text}" for text in _excerpts([text.partition("\n")[2] for _, text in pair])]


def _operation(header: Header) -> str:
    words = [_word(Operation, header.operation)]
    if header.reduction != Reduction.NONE:
        words += [
            f"op={_word(Reduction, header.reduction)}",
            f"algorithm={_word(Algorithm, header.algorithm)}",
        ]
    return " ".join(words)


def _word(kind: type[IntEnum], value: int) -> str:
    return kind(value).name.lower().replace("_", "-") if value in set(kind) else str(value)


def _excerpts(texts: Sequence[str]) -> list[str]:
    """Both texts, from the tensor in which they begin to differ where they are long."""
    one, other = texts
    differ = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    alike = one[:differ]
    start = alike.rfind("; ") + 2 if "; " in alike and len(max(texts, key=len)) > _EXCERPT else 0
    shown = [("… " if start else "") + text[start : start + _EXCERPT] for text in texts]
    return [
        text + (" …" if len(whole) > start + _EXCERPT else "")
        for text, whole in zip(shown, texts, strict=True)
    ]
