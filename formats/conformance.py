"""Run any decoder over the golden vectors (vectors/README.md has the file format and the contract).

    python formats/conformance.py [--core]                       the reference decoder
    python formats/conformance.py [--core] module:function       a callable decode(data, limits, expected)
    python formats/conformance.py [--core] --program "COMMAND"   a program in any language
    python formats/conformance.py [--core] --text "COMMAND"      one that prints the text form (texts.py)

``--core`` leaves out the vectors that use an extended codec or transform (SPEC section 1.3), and
``--version 1.0`` those of later versions, for a reader that was written for this one. With
``--streams units`` or ``--streams containers``, a splitter of streams runs over the stream vectors instead
(streams.py). With ``--patches``, a reader of patches of weights runs over their vectors (patches.py), and
with ``--indexes`` a reader of closed streams (indexes.py). With
``--pieces N``, the standard input of a program arrives in pieces of N bytes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shlex
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DEFAULT_DIR = HERE / "vectors"
TRANSFORM = 4
"""Record type that is known, critical or not (SPEC section 2.3)."""

TensorTuple = tuple[str, str, Sequence[int], Sequence[int], bytes]
"""Name, element type, shape, indices and values; ``absent`` follows if it is not "zero"."""
Schema = dict[str, tuple[tuple[int, ...], str]]
MOST_PIECE = 4096
"""Largest piece of a program's standard input: a pipe always has room for it."""
ZERO = "zero"
"""Meaning of the elements that are not present, unless a vector gives another."""


@dataclass(frozen=True)
class One:
    """The expectation of a caller that asks for exactly one tensor, without a name.

    ``tensor`` is its (shape, element type name), or None if the caller does not give them.
    """

    tensor: tuple[tuple[int, ...], str] | None


Expected = Schema | One | None
Decode = Callable[[bytes, dict[str, int], Expected], tuple[bytes, Sequence[TensorTuple]]]


@dataclass(frozen=True)
class Failure:
    """A vector that a decoder got wrong, with a description."""

    id: str
    message: str


@dataclass(frozen=True)
class Encode:
    """Input from which an exact writer must reproduce a vector's bytes."""

    many: bool
    scheme: str
    seed: int
    tag: bytes
    tensors: list[TensorTuple]


@dataclass(frozen=True)
class Vector:
    """One file of vectors/, with its abbreviations expanded.

    ``within`` is, for each tensor, the largest allowed difference of a value; 0 if the bytes must be equal.
    ``absent`` is, for each tensor, the meaning of the elements that are not present.
    """

    id: str
    about: str
    data: bytes
    result: str
    code: str | None
    limits: dict[str, int]
    schema: Schema | None
    one: One | None
    tag: bytes
    tensors: list[TensorTuple]
    within: list[float]
    absent: list[str]
    meta: dict[str, Any]
    encode: Encode | None

    @property
    def expected(self) -> Expected:
        """The third argument of a decoder."""
        return self.schema if self.one is None else self.one


def load(path: Path) -> Vector:
    """Load the vector in a file."""
    fields = json.loads(path.read_text(encoding="utf-8"))
    schema, one = fields.get("schema"), fields.get("one")
    decoded = fields.get("decoded", {"tag": "", "tensors": []})
    encode = fields.get("encode")
    return Vector(
        id=fields["id"],
        about=fields["about"],
        data=parse_hex(fields["hex"]),
        result=fields["result"],
        code=fields.get("code"),
        limits=fields.get("limits", {}),
        schema=schema and {name: (tuple(shape), dtype) for name, (shape, dtype) in schema.items()},
        one=None if one is None else One((tuple(one["shape"]), one["dtype"]) if one else None),
        tag=parse_hex(decoded["tag"]),
        tensors=[_parse_tensor(t) for t in decoded["tensors"]],
        within=[float(t.get("within", 0)) for t in decoded["tensors"]],
        absent=[t.get("absent", ZERO) for t in decoded["tensors"]],
        meta=decoded.get("meta", {}),
        encode=encode
        and Encode(
            many=encode["many"],
            scheme=encode["scheme"],
            seed=int(encode["seed"]),  # digits in a string if it is above 2^53
            tag=parse_hex(encode["tag"]),
            tensors=[_parse_tensor(t) for t in encode["tensors"]],
        ),
    )


def load_all(
    vectors: Path = DEFAULT_DIR, *, core: bool = False, version: str | None = None
) -> Iterator[Vector]:
    """Load every vector: the valid ones first, each half in the order of the file names.

    Args:
        vectors: the folder that holds valid/ and bad/.
        core: whether to leave out the vectors that use an extended codec or transform.
        version: the version whose lists have the vectors; None for all.
    """
    extended = _extended_ids() if core else {}
    listed = None if version is None else _read_lists(version)
    for verdict in ("valid", "bad"):
        for path in sorted((vectors / verdict).glob("*/*.json"), key=lambda path: path.name):
            if listed is not None and path.stem not in listed:
                continue
            vector = load(path)
            if not core or not uses(vector.data, extended):
                yield vector


def _read_lists(version: str) -> set[str]:
    """Return the ids of the vectors in the lists of a version, such as 1.0 and 1.0.1."""
    lists = DEFAULT_DIR.glob(f"{version}*.sha256")
    return {Path(line).stem for path in lists for line in path.read_text(encoding="utf-8").splitlines()}


def _extended_ids() -> dict[str, set[int]]:
    """Return the ids of the extended profile by kind, from registry.toml."""
    found: dict[str, set[int]] = {}
    for row in _rows_of_registry():
        if 'profile = "extended"' in row:
            _add_id(found, row)
    return found


def _rows_of_registry() -> list[str]:
    return (HERE / "registry.toml").read_text(encoding="utf-8").split("\n[[")[1:]


def _add_id(found: dict[str, set[int]], row: str) -> None:
    id = int(row.partition("id = ")[2].split()[0])
    found.setdefault(row.partition("]")[0], set()).add(id)
    if "critical = true" in row:
        found.setdefault("critical", set()).add(id)


def find_ids(names: Iterable[str]) -> dict[str, set[int]]:
    """Return the ids of codecs, maps, domains and records by kind, from registry.toml.

    Raises:
        ValueError: if no row has one of the names.
    """
    found: dict[str, set[int]] = {}
    left = set(names)
    for row in _rows_of_registry():
        name = row.partition('name = "')[2].partition('"')[0]
        if name in names:
            left.discard(name)
            _add_id(found, row)
    if left:
        raise ValueError(f"the registry has no {', '.join(sorted(left))}")
    return found


def uses(data: bytes, ids: Mapping[str, set[int]]) -> bool:
    """Return whether an entry of the table, or a record, uses one of these ids by kind."""
    if len(data) < 24:
        return False
    (n_entries,) = struct.unpack_from("<I", data, 8)
    for at in range(24, min(24 + 40 * n_entries, len(data) - 39), 40):
        dtype, *codecs = data[at + 36 : at + 40]
        kinds = ("dtype", "domain", "index", "value", "map")
        found = zip(kinds, (dtype & 15, dtype >> 4, *codecs), strict=True)
        if any(id in ids.get(kind, ()) for kind, id in found):
            return True
    at = 24 + 40 * n_entries + 8
    while data[6] & 1 and at + 8 <= len(data):
        kind, flags, length = struct.unpack_from("<HHI", data, at)
        if kind in ids.get("record", ()) and (
            kind == TRANSFORM or flags == (kind in ids.get("critical", ()))
        ):
            return True
        at += 8 + length + -length % 8
        if at >= 24 + 40 * n_entries + struct.unpack_from("<I", data, 24 + 40 * n_entries)[0]:
            break
    return False


def run(
    decode: Decode, vectors: Path = DEFAULT_DIR, *, core: bool = False, version: str | None = None
) -> list[Failure]:
    """Run a decoder over all vectors, or those of the core profile or a version; return its failures."""
    failures = []
    for vector in load_all(vectors, core=core, version=version):
        message = check(decode, vector)
        if message is not None:
            failures.append(Failure(vector.id, message))
    return failures


def check(decode: Decode, vector: Vector) -> str | None:
    """Run a decoder on one vector; return a description of its failure, or None."""
    try:
        tag, tensors = decode(vector.data, dict(vector.limits), vector.expected)
    except Exception as error:
        kind, code = refusal_of(error)
        if vector.result == "ok":
            return f"refused: {kind} {code}: {error}"
        if (kind, code) != (vector.result, vector.code):
            return f"refused as {kind} {code}, not {vector.result} {vector.code}: {error}"
        return None
    if vector.result != "ok":
        return f"accepted, not refused as {vector.result} {vector.code}"
    if bytes(tag) != vector.tag:
        return f"tag {bytes(tag).hex()}, not {vector.tag.hex()}"
    if len(tensors) != len(vector.tensors):
        return f"{len(tensors)} tensors, not {len(vector.tensors)}"
    for found, want, within, absent in zip(
        tensors, vector.tensors, vector.within, vector.absent, strict=True
    ):
        got: Any = found
        if absent != (got[5] if len(got) > 5 else ZERO):
            return f"meaning of absent elements of {want[0]!r} differs"
        part = _find_difference((want[0], *got[1:5]) if vector.one else got[:5], want, within)
        if part is not None:
            return f"{part} of {want[0]!r} differs"
    return None


def refusal_of(error: Exception) -> tuple[str, str | None]:
    """Return the kind and the code of a refusal; the code is None if the exception has none."""
    return getattr(error, "kind", type(error).__name__), getattr(error, "code", None)


def _find_difference(got: TensorTuple, want: TensorTuple, within: float) -> str | None:
    """Name the first field of a tensor that is not as wanted, or None; values may differ by ``within``."""
    same = {
        "name": got[0] == want[0],
        "element type": got[1] == want[1],
        "shape": tuple(got[2]) == tuple(want[2]),
        "indices": len(got[3]) == len(want[3]) and list(got[3]) == list(want[3]),
        "values": bytes(got[4]) == want[4] or (within > 0 and is_near(bytes(got[4]), want, within)),
    }
    return next((part for part, equal in same.items() if not equal), None)


def is_near(values: bytes, want: TensorTuple, within: float) -> bool:
    """Return whether every value is a number within ``within`` of the wanted one."""
    if len(values) != len(want[4]):
        return False
    pairs = zip(_iterate_numbers(values, want[1]), _iterate_numbers(want[4], want[1]), strict=True)
    return all(abs(a - b) <= within for a, b in pairs)  # false of NaN


def _iterate_numbers(values: bytes, dtype: str) -> Iterator[float]:
    """Yield the little-endian elements of a type as numbers."""
    if dtype == "bfloat16":  # the upper half of a binary32
        values = b"".join(b"\0\0" + values[i : i + 2] for i in range(0, len(values), 2))
    letter = {"float16": "e", "float32": "f", "bfloat16": "f", "float64": "d"}[dtype]
    return (x for (x,) in struct.iter_unpack("<" + letter, values))


Hex = str | dict[str, Any] | list[Any]
"""Bytes of a field: a string, {"repeat": hex, "bytes": n}, or a list of both."""


def parse_hex(text: Hex) -> bytes:
    """Return the bytes of a field in hex: a string, one that is repeated, or a list of both."""
    if isinstance(text, list):
        return b"".join(map(parse_hex, text))
    return bytes.fromhex(text) if isinstance(text, str) else expand_values(text)


def _parse_tensor(fields: Mapping[str, Any]) -> TensorTuple:
    shape = tuple(fields["shape"])
    indices = expand_indices(fields["indices"], shape)
    return fields["name"], fields["dtype"], shape, indices, expand_values(fields["values"])


def _with_absent(tensor: TensorTuple, fields: Mapping[str, Any]) -> Any:
    return (*tensor, fields["absent"]) if fields.get("absent", ZERO) != ZERO else tensor


def parse_decoded(fields: Mapping[str, Any]) -> tuple[bytes, list[TensorTuple]]:
    """Return the tag and the tensors of a ``decoded`` field, as a decoder returns them."""
    return parse_hex(fields["tag"]), [_with_absent(_parse_tensor(t), t) for t in fields["tensors"]]


def expand_indices(indices: Any, shape: tuple[int, ...]) -> list[int]:
    """Expand indices given as a list, as "all", or as {"ranges": [[start, stop, step], …]}."""
    if indices == "all":
        size = 1
        for dimension in shape:
            size *= dimension
        return list(range(size))
    if isinstance(indices, dict):
        return [i for start, stop, step in indices["ranges"] for i in range(start, stop, step)]
    return list(indices)


def expand_values(values: Hex) -> bytes:
    """Expand bytes from hex, a list of hex, or {"repeat": hex, "bytes": n}: repeated and cut to n bytes."""
    if isinstance(values, dict):
        period = parse_hex(values["repeat"])
        size = int(values["bytes"])
        return (period * (size // len(period) + 1))[:size]
    return parse_hex(values)


def reference(data: bytes, limits: dict[str, int], expected: Expected) -> tuple[bytes, list[TensorTuple]]:
    """Decode with the reference decoder; a model for other adapters.

    Args:
        data: the container.
        limits: the limits that differ from the defaults, by name.
        expected: {name: (shape, element type name)}, a One, or None.

    Returns:
        (tag, tensors), as vectors/README.md defines them.

    Raises:
        WireError: if the container is refused.
    """
    from formats.reference import Limits, decode
    from formats.zstd import find_decompressor

    schema: Any = expected
    if isinstance(expected, One):
        schema = expected.tensor and {"": expected.tensor}
    single = isinstance(expected, One)
    decoded = decode(data, Limits(**limits), schema, single=single, zstd=find_decompressor())
    tensors: Any = [
        (t.name, t.dtype, t.shape, t.indices, t.values, *([t.absent] if t.absent != ZERO else []))
        for t in decoded.tensors
    ]
    return decoded.tag, tensors


def _run_containers(options: argparse.Namespace) -> tuple[int, list[Failure]]:
    """Return the number of vectors, and the failures of the decoder that the command line names."""
    decode: Decode = reference
    if options.program is not None:
        from formats.program import run_program

        decode = run_program(shlex.split(options.program), options.pieces)
    elif options.decoder is not None:
        decode = _import_function(options.decoder)
    which: dict[str, Any] = {"core": options.core, "version": options.version}
    total = sum(1 for _ in load_all(options.vectors, **which))
    return total, run(decode, options.vectors, **which)


def _run_streams(options: argparse.Namespace) -> tuple[int, list[Failure]]:
    """Return the number of streams, and the failures of the splitter that the command line names."""
    from formats import streams

    split: streams.Split = streams.reference_of(options.streams)
    if options.program is not None:
        from formats.program import run_splitter

        split = run_splitter(shlex.split(options.program), options.streams, options.pieces)
    elif options.decoder is not None:
        split = _import_function(options.decoder)
    total = sum(1 for _ in streams.load_streams(options.vectors))
    return total, streams.run_streams(split, options.vectors, options.streams)


def _run_patches(options: argparse.Namespace) -> tuple[int, list[Failure]]:
    """Return the number of patches, and the failures of the reader that the command line names."""
    from formats import patches
    from formats.program import run_patcher

    read: patches.Apply = _choose_reader(options, patches.reference, run_patcher)
    return sum(1 for _ in patches.load_patches(options.vectors)), patches.run_patches(read, options.vectors)


def _run_indexes(options: argparse.Namespace) -> tuple[int, list[Failure]]:
    """Return the number of closed streams, and the failures of the reader that the command line names."""
    from formats import indexes
    from formats.program import run_indexer

    read: indexes.Read = _choose_reader(options, indexes.reference, run_indexer)
    return sum(1 for _ in indexes.load_indexes(options.vectors)), indexes.run_indexes(read, options.vectors)


def _choose_reader(options: argparse.Namespace, reference: Any, start: Callable[..., Any]) -> Any:
    """Return the reader that the command line names: a program, a function, or the reference."""
    if options.program is not None:
        return start(shlex.split(options.program), options.pieces)
    return reference if options.decoder is None else _import_function(options.decoder)


def _run_texts(options: argparse.Namespace) -> tuple[int, list[Failure]]:
    """Return the number of vectors, and the failures of the program that prints their text forms."""
    from formats import texts
    from formats.program import run_text
    from formats.zstd import find_decompressor

    if find_decompressor() is None and not options.core:
        raise SystemExit("the reference's texts need Python 3.14 or the package zstandard")
    show = run_text(shlex.split(options.text), options.pieces)
    total = sum(1 for _ in texts.load_samples(options.vectors, core=options.core))
    return total, texts.run_texts(show, options.vectors, core=options.core)


def _import_function(name: str) -> Any:
    """Return the function that "module:function" names."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 if the decoder conforms, else 1."""
    parser = argparse.ArgumentParser(
        prog="conformance.py", description="Run a decoder over the golden vectors."
    )
    tested = parser.add_mutually_exclusive_group()
    tested.add_argument("decoder", nargs="?", help="module:function; default: the reference decoder")
    tested.add_argument("--program", metavar="COMMAND", help="a program, started once for each vector")
    tested.add_argument("--text", metavar="COMMAND", help="a program that prints text forms, also of streams")
    parser.add_argument("--pieces", type=int, metavar="N", help="write N bytes at a time to a program")
    parser.add_argument("--vectors", type=Path, default=DEFAULT_DIR, help="another folder of vectors")
    parser.add_argument("--core", action="store_true", help="only vectors of the core profile")
    parser.add_argument("--version", help="only containers in the lists of this version, such as 1.0")
    parser.add_argument(
        "--streams",
        choices=("units", "containers"),
        help="the stream vectors, for a splitter that returns units or that skips them",
    )
    parser.add_argument("--patches", action="store_true", help="the patches of weights, for their readers")
    parser.add_argument("--indexes", action="store_true", help="the closed streams, for readers of indexes")
    options = parser.parse_args(arguments)
    if options.text and options.streams:
        parser.error("--text takes the streams, too: --streams is for splitters")
    for name in ("patches", "indexes"):
        if getattr(options, name) and (options.text or options.streams or options.core):
            parser.error(f"--{name} is for readers of {name}, without --text, --streams and --core")
    if options.version and (options.text or options.streams or options.patches or options.indexes):
        parser.error("--version is for decoders of containers")
    if options.patches and options.indexes:
        parser.error("--patches and --indexes are for readers of two kinds")
    started = options.program or options.text
    if options.pieces is not None and not (started and 1 <= options.pieces <= MOST_PIECE):
        parser.error(f"--pieces takes 1 to {MOST_PIECE} bytes, for a program")
    runs = _run_texts if options.text else _run_streams if options.streams else _run_containers
    runs = _run_patches if options.patches else _run_indexes if options.indexes else runs
    total, failures = runs(options)
    for failure in failures:
        print(f"{failure.id}: {failure.message}")
    name = started or options.decoder or "reference"
    print(f"{name}: {total - len(failures)} of {total} vectors pass")
    return 1 if failures or total == 0 else 0


if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent), str(Path.cwd())]
    module = importlib.import_module("formats.conformance")  # the one that decoders import: one class One
    sys.exit(module.main())
