"""A decoder that is a program, in any language (contract: vectors/README.md, Testing a decoder).

The program is started once for each vector. Its argument is a JSON object of the caller's limits and
expectations, its standard input is the container or the stream, and it prints a JSON object.
``formats/reference/__main__.py`` is such a program.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

from formats.conformance import Decode, Expected, One, TensorTuple, parse_decoded, refusal_of
from formats.streams import Part, Split, parse_outcome, split_all, write_parts

SECONDS = 60
"""Time that a program may take for one vector."""


class Refused(Exception):
    """Refusal that a program printed."""

    def __init__(self, kind: str, code: str) -> None:
        super().__init__(f"{kind} {code}")
        self.kind = kind
        self.code = code


def run_program(command: Sequence[str]) -> Decode:
    """Return a decoder that starts the program for each container.

    Args:
        command: the program and its first arguments.
    """

    def decode(data: bytes, limits: dict[str, int], expected: Expected) -> tuple[bytes, list[TensorTuple]]:
        answer = ask(command, data, write_argument(limits, expected))
        if answer["result"] != "ok":
            raise Refused(answer["result"], answer["code"])
        return parse_decoded(answer["decoded"])

    return decode


def run_splitter(command: Sequence[str], kind: str) -> Split:
    """Return a splitter that starts the program for each stream.

    Args:
        command: the program and its first arguments.
        kind: whether the program returns units or skips them; a constant of streams.py.
    """

    def split(data: bytes, limits: dict[str, int]) -> Iterator[Part]:
        outcome = parse_outcome(ask(command, data, {"stream": kind} | write_argument(limits, None)))
        yield from outcome.parts
        if outcome.result != "ok":
            raise Refused(outcome.result, str(outcome.code))

    return split


def ask(command: Sequence[str], data: bytes, argument: dict[str, Any]) -> Any:
    """Start a program with an argument; return the object that it prints."""
    done = subprocess.run(
        [*command, json.dumps(argument)], input=data, capture_output=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
    return json.loads(done.stdout)


def write_argument(limits: dict[str, int], expected: Expected) -> dict[str, Any]:
    """Return the fields ``limits``, ``schema`` and ``one`` of a vector, each if it is there."""
    argument: dict[str, Any] = {"limits": limits} if limits else {}
    if isinstance(expected, One):
        shape, dtype = expected.tensor or ((), "")
        argument["one"] = {"shape": list(shape), "dtype": dtype} if expected.tensor else {}
    elif expected is not None:
        argument["schema"] = {name: [list(shape), dtype] for name, (shape, dtype) in expected.items()}
    return argument


def read_argument(text: str) -> tuple[dict[str, int], Expected]:
    """Return the limits and the expectation in the argument of a program."""
    fields = json.loads(text)
    if "one" in fields:
        one = fields["one"]
        return fields.get("limits", {}), One((tuple(one["shape"]), one["dtype"]) if one else None)
    schema = fields.get("schema")
    if schema is not None:
        schema = {name: (tuple(shape), dtype) for name, (shape, dtype) in schema.items()}
    return fields.get("limits", {}), schema


def answer(decode: Decode, data: bytes, argument: str) -> dict[str, Any]:
    """Return what a program with this decoder prints.

    Args:
        decode: the decoder.
        data: the container.
        argument: the program's argument; empty for the default limits and no expectation.
    """
    limits, expected = read_argument(argument or "{}")
    try:
        tag, tensors = decode(data, limits, expected)
    except Exception as error:
        kind, code = refusal_of(error)
        if code is None:
            raise
        return {"result": kind, "code": code}
    return {"result": "ok", "decoded": {"tag": tag.hex(), "tensors": [_tensor_fields(t) for t in tensors]}}


def answer_stream(split: Split, data: bytes, argument: str) -> dict[str, Any]:
    """Return what a program with this splitter prints for a stream."""
    outcome = split_all(split, data, read_argument(argument)[0])
    fields = {"result": outcome.result} | ({"code": outcome.code} if outcome.code else {})
    return fields | {"parts": write_parts(outcome.parts)}


def _tensor_fields(tensor: TensorTuple) -> dict[str, Any]:
    name, dtype, shape, indices, values = tensor[:5]
    absent: Any = tensor[5:]
    ranges = {"ranges": [[indices.start, indices.stop, indices.step]]} if isinstance(indices, range) else None
    return {
        "name": name,
        "dtype": dtype,
        "shape": list(shape),
        "indices": ranges or list(indices),
        "values": values.hex(),
        **({"absent": absent[0]} if absent else {}),
    }
