"""A decoder that is a program, in any language (contract: vectors/README.md, Testing a decoder).

The program is started once for each vector. Its argument is a JSON object of the caller's limits and
expectations, its standard input is the container or the stream, and it prints a JSON object.
``formats/reference/__main__.py`` is such a program. A program that prints the text form gets options instead.
In place of a word ``FILE``, the command gets the path of a file with the input. Standard input is then empty.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from io import FileIO
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import Any

from formats.conformance import Decode, Expected, One, TensorTuple, parse_decoded, refusal_of
from formats.indexes import Read, Row
from formats.patches import Apply, State, parse_state, write_state
from formats.peers import Answer
from formats.streams import Part, Split, parse_outcome, split_all, write_parts
from formats.texts import Show

FILE = "FILE"
"""Word of a command that is replaced by the path of a file with the input."""
SECONDS = 60
"""Time that a program may take for one vector."""
MOST_PIECES = 2**16
"""Most pieces of a standard input; those of a longer one are larger, so that SECONDS suffice."""
PAUSE = 2e-5
"""Seconds between two looks at whether a program has read a piece of its standard input."""


class Refused(Exception):
    """Refusal that a program printed."""

    def __init__(self, kind: str, code: str) -> None:
        super().__init__(f"{kind} {code}")
        self.kind = kind
        self.code = code


def run_program(command: Sequence[str], pieces: int | None = None) -> Decode:
    """Return a decoder that starts the program for each container.

    Args:
        command: the program and its first arguments.
        pieces: number of bytes that the program gets at a time; None for all.
    """

    def decode(data: bytes, limits: dict[str, int], expected: Expected) -> tuple[bytes, list[TensorTuple]]:
        answer = ask(command, data, write_argument(limits, expected), pieces)
        if answer["result"] != "ok":
            raise Refused(answer["result"], answer["code"])
        return parse_decoded(answer["decoded"])

    return decode


def run_splitter(command: Sequence[str], kind: str, pieces: int | None = None) -> Split:
    """Return a splitter that starts the program for each stream.

    Args:
        command: the program and its first arguments.
        kind: whether the program returns units or skips them; a constant of streams.py.
        pieces: number of bytes that the program gets at a time; None for all.
    """

    def split(data: bytes, limits: dict[str, int]) -> Iterator[Part]:
        outcome = parse_outcome(ask(command, data, {"stream": kind} | write_argument(limits, None), pieces))
        yield from outcome.parts
        if outcome.result != "ok":
            raise Refused(outcome.result, str(outcome.code))

    return split


def run_patcher(command: Sequence[str], pieces: int | None = None) -> Apply:
    """Return a reader of patches that starts the program for each patch.

    Args:
        command: the program and its first arguments.
        pieces: number of bytes that the program gets at a time; None for all.
    """

    def apply(data: bytes, state: State, limits: dict[str, int], part: bool) -> State:
        argument = {"state": write_state(state)} | ({"part": True} if part else {})
        answer = ask(command, data, argument | write_argument(limits, None), pieces)
        if answer["result"] != "ok":
            raise Refused(answer["result"], answer["code"])
        return parse_state(answer["target"])

    return apply


def run_indexer(command: Sequence[str], pieces: int | None = None) -> Read:
    """Return a reader of indexes that starts the program for each stream.

    Args:
        command: the program and its first arguments.
        pieces: number of bytes that the program gets at a time; None for all.
    """

    def read(data: bytes, limits: dict[str, int]) -> list[Row]:
        answer = ask(command, data, {"index": True} | write_argument(limits, None), pieces)
        if answer["result"] != "ok":
            raise Refused(answer["result"], answer["code"])
        rows: list[Row] = answer["index"]
        return rows

    return read


def run_peer(command: Sequence[str]) -> Answer:
    """Return a peer that starts the program for each vector of rounds, headers or scheme strings.

    Its standard input is a JSON object of the vector's fields without the answers.
    """

    def answer(folder: str, given: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = ask(command, json.dumps(given).encode("utf-8"), {"peer": folder})
        return found

    return answer


def run_text(command: Sequence[str], pieces: int | None = None) -> Show:
    """Return a function that starts the program for each stream, and returns its text form.

    Args:
        command: the program and its first arguments.
        pieces: number of bytes that the program gets at a time; None for all.
    """

    def show(data: bytes, options: Sequence[str]) -> tuple[int, str]:
        done = _start([*command, *options], data, pieces)
        if done.returncode not in (0, 1):
            raise _describe_end(done)
        return done.returncode, done.stdout.decode("ascii")

    return show


def ask(command: Sequence[str], data: bytes, argument: dict[str, Any], pieces: int | None = None) -> Any:
    """Start a program with an argument; return the object that it prints."""
    done = _start([*command, json.dumps(argument)], data, pieces)
    if done.returncode:
        raise _describe_end(done)
    return json.loads(done.stdout)


def _describe_end(done: subprocess.CompletedProcess[bytes]) -> RuntimeError:
    return RuntimeError(f"exit status {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")


def _start(command: list[str], data: bytes, pieces: int | None) -> subprocess.CompletedProcess[bytes]:
    if pieces is not None:
        return _start_in_pieces(command, data, pieces)
    if FILE in command:
        with NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            command = [file.name if word == FILE else word for word in command]
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
            )
    return subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, check=False)


def _start_in_pieces(command: list[str], data: bytes, size: int) -> subprocess.CompletedProcess[bytes]:
    """Run a program; each piece is written after the program has read the one before, or it has ended."""
    reader, writer = os.pipe()
    with (
        open(reader, "rb", 0) as source,
        open(writer, "wb", 0) as sink,
        TemporaryFile() as output,
        TemporaryFile() as errors,
        subprocess.Popen(command, stdin=source, stdout=output, stderr=errors) as process,
    ):
        end = time.monotonic() + SECONDS
        size = max(size, -(-len(data) // MOST_PIECES))
        try:
            at = 0
            while at < len(data) and process.poll() is None and time.monotonic() < end:
                if _count_unread(source):
                    time.sleep(PAUSE)
                else:
                    sink.write(data[at : at + size])
                    at += size
            sink.close()
            process.wait(max(end - time.monotonic(), 0))
        finally:
            process.kill()  # does nothing if it has ended
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, output.read(), errors.read())


def _count_unread(pipe: FileIO) -> int:
    """Return the number of bytes that were written to a pipe and not read."""
    import fcntl  # not on Windows
    import termios

    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return int(count)


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


def answer_index(read: Read, data: bytes, argument: str) -> dict[str, Any]:
    """Return what a program with this reader of indexes prints for a stream."""
    try:
        return {"result": "ok", "index": read(data, read_argument(argument)[0])}
    except Exception as error:
        kind, code = refusal_of(error)
        if code is None:
            raise
        return {"result": kind, "code": code}


def answer_patch(apply: Apply, data: bytes, argument: str) -> dict[str, Any]:
    """Return what a program with this reader of patches prints.

    Args:
        apply: the reader.
        data: the patch.
        argument: the program's argument, with the state.
    """
    fields = json.loads(argument)
    state = parse_state(fields["state"])
    try:
        target = apply(data, state, fields.get("limits", {}), fields.get("part", False))
    except Exception as error:
        kind, code = refusal_of(error)
        if code is None:
            raise
        return {"result": kind, "code": code}
    return {"result": "ok", "target": write_state(target)}


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
