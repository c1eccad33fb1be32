"""Run any splitter of streams over the vectors of vectors/streams (contract: vectors/README.md).

A splitter either returns units, or skips them (spec/stream.md, section 2). Both kinds are tested.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formats.conformance import DEFAULT_DIR, Failure, parse_hex, refusal_of

UNITS, CONTAINERS = "units", "containers"
"""The kinds of splitters: one that returns units, and one that skips them."""
NOT_SKIPPED = ("unit-checksum", "unit-padding")
"""Codes of the rows that a splitter leaves out if it skips units."""

Part = int | tuple[int, bytes]
"""A container, by its length; or the application and the body of a unit."""
Split = Callable[[bytes, dict[str, int]], Iterator[Part]]


@dataclass(frozen=True)
class Outcome:
    """Parts that a splitter returns before a refusal, or all; the refusal's kind and code, or "ok"."""

    parts: list[Part]
    result: str = "ok"
    code: str | None = None


@dataclass(frozen=True)
class Stream:
    """One file of vectors/streams."""

    id: str
    data: bytes
    limits: dict[str, int]
    outcome: Outcome

    def expected_of(self, kind: str) -> Outcome:
        """Return the right outcome of a splitter of this kind."""
        if kind == UNITS:
            return self.outcome
        containers: list[Part] = [part for part in self.outcome.parts if isinstance(part, int)]
        if self.outcome.code in NOT_SKIPPED:  # the unit is the last part of these vectors
            return Outcome(containers)
        return Outcome(containers, self.outcome.result, self.outcome.code)


def load_streams(vectors: Path = DEFAULT_DIR) -> Iterator[Stream]:
    """Load the streams in the order of their file names."""
    for path in sorted((vectors / "streams").glob("*.json")):
        fields = json.loads(path.read_text(encoding="utf-8"))
        outcome = parse_outcome(fields)
        yield Stream(fields["id"], parse_hex(fields["hex"]), fields.get("limits", {}), outcome)


def parse_outcome(fields: dict[str, Any]) -> Outcome:
    """Return the outcome in the fields ``result``, ``code`` and ``parts`` of a vector or an answer."""
    parts: list[Part] = [
        part["container"] if "container" in part else (part["application"], parse_hex(part["body"]))
        for part in fields["parts"]
    ]
    return Outcome(parts, fields["result"], fields.get("code"))


def split_all(split: Split, data: bytes, limits: dict[str, int]) -> Outcome:
    """Return the outcome of a splitter; an exception without a code passes through."""
    parts: list[Part] = []
    try:
        parts.extend(split(data, dict(limits)))
    except Exception as error:
        kind, code = refusal_of(error)
        if code is None:
            raise
        return Outcome(parts, kind, code)
    return Outcome(parts)


def check_stream(split: Split, stream: Stream, kind: str = UNITS) -> str | None:
    """Run a splitter on one stream; return a description of its failure, or None."""
    wanted = stream.expected_of(kind)
    try:
        found = split_all(split, stream.data, stream.limits)
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"
    if (found.result, found.code) != (wanted.result, wanted.code):
        return f"{found.result} {found.code}, not {wanted.result} {wanted.code}"
    if found.parts != wanted.parts:
        return f"parts {found.parts}, not {wanted.parts}"
    return None


def run_streams(split: Split, vectors: Path = DEFAULT_DIR, kind: str = UNITS) -> list[Failure]:
    """Run a splitter of either kind over all streams; return its failures."""
    found = ((stream.id, check_stream(split, stream, kind)) for stream in load_streams(vectors))
    return [Failure(id, message) for id, message in found if message is not None]


def reference_of(kind: str) -> Split:
    """Return the reference as a splitter of this kind; a model for other adapters.

    Args:
        kind: ``UNITS`` or ``CONTAINERS``.

    Examples:
        >>> from formats.reference.stream import write_unit
        >>> list(reference_of(UNITS)(write_unit(7, b"abc"), {}))
        [(7, b'abc')]
    """

    def split(data: bytes, limits: dict[str, int]) -> Iterator[Part]:
        from formats.reference import Limits, stream

        for part in stream.split(data, Limits(**limits), units_read=kind == UNITS):
            yield (part.application, part.body) if isinstance(part, stream.Unit) else len(part)

    return split


def write_parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Return the field ``parts`` of a vector or an answer."""
    return [
        {"container": part} if isinstance(part, int) else {"application": part[0], "body": part[1].hex()}
        for part in parts
    ]
