"""Test a program that prints the text form (spec/text.md) over all vectors (contract: vectors/README.md).

The texts of the reference are the right ones. They are compared field by field, without the descriptions of
refusals. Elements of transformed tensors may differ by the tolerance of their vector.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formats.conformance import DEFAULT_DIR, Failure, TensorTuple, is_near, load_all
from formats.reference.text_form import describe_stream, is_refused, to_plain
from formats.streams import load_streams

VERIFY, VALUES = "--verify", "--values"
OPTIONS: tuple[tuple[str, ...], ...] = ((VERIFY,), (VALUES,))
WITHOUT_OPTIONS = 10
"""A program is also started without options for each vector whose number is a multiple of this one."""
METADATA = re.compile(r"\[\d+\]\.(tensor_)?meta\b")
"""Paths of the objects whose fields have no order."""
SHOWN = 60
"""Number of characters that are shown of two values that differ."""

Show = Callable[[bytes, Sequence[str]], tuple[int, str]]
"""Exit status and output of a program, given a stream and the options."""


@dataclass(frozen=True)
class Sample:
    """Stream of one vector; ``tensors`` and ``within`` are those of a vector with elements."""

    id: str
    data: bytes
    tensors: Sequence[TensorTuple] = ()
    within: Sequence[float] = ()


def load_samples(vectors: Path = DEFAULT_DIR, *, core: bool = False) -> Iterator[Sample]:
    """Load the containers, or those of the core profile, and then the streams."""
    for vector in load_all(vectors, core=core):
        yield Sample(vector.id, vector.data, vector.tensors, vector.within)
    for stream in load_streams(vectors):
        yield Sample(stream.id, stream.data)


def run_texts(show: Show, vectors: Path = DEFAULT_DIR, *, core: bool = False) -> list[Failure]:
    """Run a program over all vectors, or those of the core profile; return its failures."""
    failures = []
    for number, sample in enumerate(load_samples(vectors, core=core)):
        choices = OPTIONS if number % WITHOUT_OPTIONS else ((), *OPTIONS)
        message = check_text(show, sample, choices)
        if message is not None:
            failures.append(Failure(sample.id, message))
    return failures


def check_text(show: Show, sample: Sample, choices: Sequence[Sequence[str]] = OPTIONS) -> str | None:
    """Run a program on one stream with each choice of options; describe its first failure, or return None."""
    parts = parse(json.dumps(to_plain(list(describe_stream(sample.data, values=True)))))
    for options in choices:
        if VALUES in options and not sample.within and _has_inexact_elements(parts):
            continue  # the vector gives no tolerance
        message = _check(show, sample, options, parts)
        if message is not None:
            return f"{' '.join(options) or 'without options'}: {message}"
    return None


def parse(text: str) -> Any:
    """Parse a text form without the descriptions of refusals, which are for people."""
    parts = json.loads(text)
    for part in parts if isinstance(parts, list) else []:
        for field in ("refused", "payload"):
            if isinstance(part, dict) and isinstance(part.get(field), str):
                part[field] = "".join(part[field].partition(": ")[:2])
    return parts


def find_difference(found: Any, wanted: Any, path: str = "") -> str | None:
    """Describe the first difference between two texts that were parsed, or return None.

    Examples:
        >>> find_difference([{"nnz": "1"}], [{"nnz": 1}])
        '[0].nnz is "1", not 1'
        >>> find_difference([{"b": 1, "a": 1}], [{"a": 1, "b": 1}])
        '[0] has the fields ["b", "a"], not ["a", "b"]'
    """
    if json.dumps(found) == json.dumps(wanted):  # unlike ==, it distinguishes 1, 1.0 and true, and orders
        return None
    if isinstance(found, dict) and isinstance(wanted, dict):
        in_order = sorted if METADATA.match(path) else list
        if in_order(found) != in_order(wanted):
            return f"{path} has the fields {json.dumps(list(found))}, not {json.dumps(list(wanted))}"
        pairs = [(f"{path}.{key}", found[key], wanted[key]) for key in wanted]
    elif isinstance(found, list) and isinstance(wanted, list):
        if len(found) != len(wanted):
            return f"{path or 'the array'} has {len(found)} items, not {len(wanted)}"
        pairs = [(f"{path}[{n}]", *each) for n, each in enumerate(zip(found, wanted, strict=True))]
    else:
        got, want = json.dumps(found), json.dumps(wanted)
        equal = next((n for n, (a, b) in enumerate(zip(got, want, strict=False)) if a != b), 0)
        start = max(equal - SHOWN // 2, 0)
        place = f", from character {start} on," if start else ""
        return f"{path or 'the text'}{place} is {got[start:][:SHOWN]}, not {want[start:][:SHOWN]}"
    differences = (find_difference(one, other, place) for place, one, other in pairs)
    return next((difference for difference in differences if difference is not None), None)


def _check(show: Show, sample: Sample, options: Sequence[str], parts: list[Any]) -> str | None:
    """Run a program with these options; ``parts`` is the right text with elements."""
    wanted = [_show_less(part, options) for part in parts]
    wanted_status = int(any(map(is_refused, wanted)))
    try:
        status, text = show(sample.data, options)
        found = parse(text)
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"
    if VALUES in options:
        with contextlib.suppress(LookupError, TypeError, ValueError):  # wrong fields differ below
            _adopt_near_elements(found, wanted, sample)
    difference = find_difference(found, wanted)
    if difference is None and status != wanted_status:
        return f"exit status {status}, not {wanted_status}"
    return difference


def _show_less(part: dict[str, Any], options: Sequence[str]) -> dict[str, Any]:
    """Return an object of a text with elements as these options show it."""
    shown = {field: value for field, value in part.items() if VALUES in options or field != "tensors"}
    return shown | {"payload": None} if "payload" in part and not options else shown


def _has_inexact_elements(parts: list[Any]) -> bool:
    """Return whether a text has elements of transformed tensors."""
    return any(entry["transform"] for part in parts if part.get("tensors") for entry in part["entries"])


def _adopt_near_elements(found: Any, wanted: list[Any], sample: Sample) -> None:
    """Replace the elements of a tensor by those wanted if they are within its tolerance."""
    for n, (tensor, within) in enumerate(zip(sample.tensors, sample.within, strict=True)):
        got = found[0]["tensors"][n]
        if within > 0 and is_near(bytes.fromhex(got["values"]), tensor, within):
            got["values"] = wanted[0]["tensors"][n]["values"]
