"""Error resolution: one CollectiveError from the table of headers and the ranks' texts.

All functions are pure. Their inputs are the same on every rank, so every rank raises the same error
(formats/spec/agreement.md, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from functools import cache

from collectives.agreement.header import (
    COMPARED,
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

_ADVICE = {
    "sequence": "a rank skipped a call or made an extra one; all ranks must make the same calls",
    "operation": "all ranks must make the same call, with the same op and algorithm",
    "dtype": "all ranks must pass tensors of the same dtype",
    "shape": "all ranks must pass tensors with the same names and shapes",
    "scheme": "all ranks must use the same scheme, and be at the same step of it; a rank that joins takes the"
    " step of the others by load_state_dict(state of any rank, strict=False)",
    "denormals": "their sums would differ: keep them on all ranks, by torch.set_flush_denormal(False) in the"
    " thread that makes the call, after the import of the library that has changed the mode",
}
_REASONS = {
    Status.ENCODE: "encode",
    Status.VALUE: "value",
    Status.ARGUMENT: "argument",
    Status.DECODE: "decode",
}
MAX_EXCERPT = 120  # characters of a rank's tensors that an error message shows


def protocol_error(table: Sequence[Header]) -> CollectiveError | None:
    """Return the error of headers that are not of this version, or None if all are.

    No field of such a header can be trusted, so no texts are exchanged.
    """
    wrong = [
        rank
        for rank, header in enumerate(table)
        if header.magic != MAGIC
        or header.version != VERSION
        or header.text_len > MAX_TEXT
        or not 0 <= header.weight < math.inf
    ]
    if not wrong:
        return None
    header = table[wrong[0]]
    description = (
        f"magic {header.magic.hex(' ')}"
        if header.magic != MAGIC
        else f"version {header.version}, text of {header.text_len} bytes, weight {header.weight:g}"
    )
    return CollectiveError(
        f"{name_ranks(wrong)}: not a header of version {VERSION} ({description});"
        " install the same version of wirecodec on every rank",
        ranks=wrong,
        reason="protocol",
    )


def error_for(table: Sequence[Header], texts: Sequence[str]) -> CollectiveError:
    """Return the error of a readable table whose headers do not match.

    Args:
        table: every rank's header.
        texts: every rank's text.

    Returns:
        The failures of all failed ranks, or if none failed, the first difference.
    """
    contributing = (Status.OK, Status.COMPILING)
    failed = [rank for rank, header in enumerate(table) if header.status not in contributing]
    if failed:
        return _error_of_failures(table, texts, failed)
    for reason, fields in COMPARED:
        groups: dict[tuple[int, ...], list[int]] = {}
        for rank, header in enumerate(table):
            groups.setdefault(tuple(getattr(header, field) for field in fields), []).append(rank)
        if len(groups) > 1:
            return _error_of_difference(reason, list(groups.values()), table, texts)
    raise AssertionError("all headers match")


def _error_of_failures(
    table: Sequence[Header], texts: Sequence[str], failed: Sequence[int]
) -> CollectiveError:
    groups: dict[tuple[int, int, str], list[int]] = {}
    for rank in failed:
        groups.setdefault((table[rank].status, table[rank].detail, texts[rank]), []).append(rank)
    parts = []
    at_fault: set[int] = set()
    for (status, detail, text), ranks in groups.items():
        if status == Status.DECODE and detail < len(table):
            at_fault.add(detail)
            parts.append(
                f"{name_ranks([detail])}: its container cannot be decoded by {name_ranks(ranks)}: {text}"
            )
            continue
        at_fault.update(ranks)
        kind = "wrong argument" if status == Status.ARGUMENT else "encoding failed"
        position = "" if detail == NO_DETAIL else f" at element {detail}"
        parts.append(f"{name_ranks(ranks)}: {kind}{position}: {text}")
    # The reason is "value" only if nothing but NaN and Inf prevents the call.
    status = next((table[rank].status for rank in failed if table[rank].status != Status.VALUE), Status.VALUE)
    reason = _REASONS[Status(status)] if status in set(Status) else "encode"
    return CollectiveError("; ".join(parts), ranks=at_fault, reason=reason)


def _error_of_difference(
    reason: str, groups: Sequence[Sequence[int]], table: Sequence[Header], texts: Sequence[str]
) -> CollectiveError:
    """Return the error of ranks that differ.

    The largest group of equal ranks is taken to be right; of equally large ones, that with the lowest rank.
    Of ranks that differ in denormal numbers, those that keep them are right.

    Args:
        reason: name of the difference.
        groups: ranks that are equal to each other, ascending by their lowest rank.
        table: every rank's header.
        texts: every rank's text.
    """
    right = max(groups, key=lambda ranks: (reason != "denormals" or not table[ranks[0]].flushes, len(ranks)))
    parts = []
    for wrong in groups:
        if wrong is not right:
            actual, expected = _describe(
                reason, [(table[ranks[0]], texts[ranks[0]]) for ranks in (wrong, right)]
            )
            parts.append(f"{name_ranks(wrong)}: {actual}, but {name_ranks(right)}: {expected}")
    wrong_ranks = [rank for ranks in groups if ranks is not right for rank in ranks]
    return CollectiveError("; ".join([*parts, _ADVICE[reason]]), ranks=wrong_ranks, reason=reason)


def _describe(reason: str, pair: Sequence[tuple[Header, str]]) -> list[str]:
    """Describe the field in which two headers differ; for hashes, use the ranks' texts."""
    if reason == "sequence":
        return [f"exchange {header.sequence}" for header, _ in pair]
    if reason == "operation":
        return [_describe_operation(header) for header, _ in pair]
    if reason == "scheme":
        return [f"scheme {text.partition(chr(10))[0]}" for _, text in pair]
    if reason == "denormals":
        return [f"{'flushes' if header.flushes else 'keeps'} denormal numbers" for header, _ in pair]
    names = {0: "none"} | {code: name for name, code in DTYPE_CODES.items()}
    if reason == "dtype" and all(header.dtype in names for header, _ in pair):
        return [f"dtype {names[header.dtype]}" for header, _ in pair]
    return [f"tensors {text}" for text in _cut_excerpts([text.partition("\n")[2] for _, text in pair])]


def _describe_operation(header: Header) -> str:
    words = [get_operation_name(header.operation)]
    if header.reduction != Reduction.NONE:
        words += [
            f"op={_get_label(Reduction, header.reduction)}",
            f"algorithm={_get_label(Algorithm, header.algorithm)}",
        ]
    return " ".join(words)


@cache
def get_operation_name(code: int) -> str:
    """Return the name of an operation, as in "allgather-bytes"."""
    return _get_label(Operation, code)


def _get_label(kind: type[IntEnum], value: int) -> str:
    return kind(value).name.lower().replace("_", "-") if value in set(kind) else str(value)


def _cut_excerpts(texts: Sequence[str]) -> list[str]:
    """Cut two long texts to excerpts that start at the first tensor in which they differ."""
    one, other = texts
    difference = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    prefix = one[:difference]
    start = prefix.rfind("; ") + 2 if "; " in prefix and len(max(texts, key=len)) > MAX_EXCERPT else 0
    shown = [("… " if start else "") + text[start : start + MAX_EXCERPT] for text in texts]
    return [
        text + (" …" if len(whole) > start + MAX_EXCERPT else "")
        for text, whole in zip(shown, texts, strict=True)
    ]
