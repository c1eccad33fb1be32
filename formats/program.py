"""A decoder that is a program, in any language (contract: vectors/README.md, Testing a decoder).

The program is started once for each vector. Its argument is a JSON object of the caller's limits and
expectations, its standard input is the container, and it prints a JSON object.
``formats/reference/__main__.py`` is such a program.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from formats.conformance import Decode, Expected, One, TensorTuple, parse_decoded

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
        argument = json.dumps(write_argument(limits, expected))
        done = subprocess.run(
            [*command, argument], input=data, capture_output=True, timeout=SECONDS, check=False
        )
        if done.returncode:
            raise RuntimeError(
                f"exit status {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}"
            )
        answer = json.loads(done.stdout)
        if answer["result"] != "ok":
            raise Refused(answer["result"], answer["code"])
        return parse_decoded(answer["decoded"])

    return decode


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
        kind, code = getattr(error, "kind", None), getattr(error, "code", None)
        if kind is None or code is None:
            raise
        return {"result": kind, "code": code}
    return {"result": "ok", "decoded": {"tag": tag.hex(), "tensors": [_tensor_fields(t) for t in tensors]}}


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
