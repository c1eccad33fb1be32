"""The command line: write a container, read one, look into one.

    wirecodec encode GRAD.npy --scheme "topk(0.01) | rice | qsgd" -o OUT.wc
    wirecodec encode GRAD.npy --preset "deepreduce-both(ratio=0.001)" -o OUT.wc
    wirecodec decode FILE.wc -o GRAD.npy
    wirecodec inspect FILE [--json]
    wirecodec verify FILE… [--json]
    wirecodec presets
    wirecodec stats GRAD.npy [--png FILE]
    wirecodec bench GRAD.npy [--scheme SCHEME | --preset PRESET]
    wirecodec advise GRAD.npy --bandwidth 10Gbit [--ranks N] [--scheme SCHEME ...] [--error] [--png FILE]

An .npz of named arrays becomes a container of named tensors, and back where OUT ends in .npz. What goes wrong
is one line on stderr and exit code 2; ``verify`` says 1 where a file is not valid.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from wirecodec.arrays import as_flat
from wirecodec.cost import Network
from wirecodec.errors import EncodeError, Truncated, WireError
from wirecodec.info import ContainerInfo, inspect
from wirecodec.limits import UNLIMITED, DecodeLimits
from wirecodec.pipeline import decode_many, encode, encode_many
from wirecodec.presets import PRESETS, parse_preset
from wirecodec.scheme import Scheme, as_scheme
from wirecodec.stream import iter_blobs
from wirecodec.units import bandwidth_of, seconds_of
from wirecodec.version import __version__
from wirecodec.words import counted, printable

__all__ = ["main"]

_SOME_RANKS = 8
_RANKS = (2, 4, 8, 16, 32, 64, 128)
"""What ``advise`` tells of where nobody says how many there are."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code: 0, 2 where its input or its words are at fault, or what it says."""
    options = _parser().parse_args(arguments)
    try:
        status: int | None = options.run(options)
    except (ValueError, OSError, MemoryError) as error:
        print(f"wirecodec: {error}", file=sys.stderr)
        return 2
    return status or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="wirecodec", description="Sparse gradients as compact bytes.")
    parser.add_argument("--version", action="version", version=f"wirecodec {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int | None], about: str) -> Any:
        added = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        added.set_defaults(run=run)
        return added

    write = command("encode", _encode, "a .npy or .npz as a container")
    write.add_argument("file", type=Path, help=".npy, or .npz, whose arrays all take the one scheme")
    _add_scheme(write)
    write.add_argument("--seed", type=int, default=0, help="for codecs that draw at random (default: 0)")
    write.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="the container")

    read = command("decode", _decode, "a container as a .npy, or as an .npz of all its tensors")
    read.add_argument("file", type=Path, help="one container")
    read.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help=".npy or .npz")

    look = command("inspect", _inspect, "what a file of containers holds")
    look.add_argument("file", type=Path, help="one container, or several one after the other")
    look.add_argument("--json", action="store_true", help="for programs")

    check = command("verify", _verify, "whether files are valid, and if not, why and where")
    check.add_argument("files", type=Path, nargs="+", metavar="file", help="containers one after the other")
    check.add_argument("--json", action="store_true", help="for programs: one line a file")

    command("presets", _presets, "the schemes of published systems, and where they are from")

    shape = command("stats", _stats, "how compressible a gradient is, and how well SIDCo fits it")
    shape.add_argument("file", type=Path, help=".npy, or .npz of named tensors, each on its own")
    shape.add_argument(
        "--png", metavar="FILE", type=Path, help="a picture too, of one tensor; needs Matplotlib"
    )

    speed = command("bench", _bench, "how fast a scheme is here, and how small and how far off")
    speed.add_argument("file", type=Path, help=".npy, or .npz of named tensors, all in one container")
    _add_scheme(speed)

    worth = command("advise", _advise, "which scheme makes an exchange faster, if any does")
    worth.add_argument("file", type=Path, help=".npy, or .npz of named tensors, exchanged together")
    worth.add_argument("--bandwidth", required=True, help="of one rank, both ways at once: 10Gbit, 1.25GB/s")
    worth.add_argument("--ranks", type=int, help="2 or more (default: 8, and a line on others)")
    worth.add_argument("--latency", default="50us", help="of a message (default: %(default)s)")
    worth.add_argument(
        "--scheme", action="append", help="or a preset, to try instead of the usual ones; may be repeated"
    )
    worth.add_argument("--error", action="store_true", help="each scheme's error, too")
    worth.add_argument(
        "--png", metavar="FILE", type=Path, help="a picture over all bandwidths; needs Matplotlib"
    )
    return parser


def _add_scheme(command: argparse.ArgumentParser) -> None:
    how = command.add_mutually_exclusive_group()
    how.add_argument("--scheme", help="selector | index codec | value codec; without it nothing is lost")
    how.add_argument("--preset", help="a published system, as 'skcompress' or 'dgc(ratio=0.01, index=rice)'")


def _scheme(options: argparse.Namespace) -> Scheme:
    """What ``_add_scheme`` was told; the name of a preset serves as a scheme, too."""
    from wirecodec.advice import scheme_named

    if options.preset is not None:
        return parse_preset(options.preset)
    return as_scheme(None if options.scheme is None else scheme_named(options.scheme))


def _inspect(options: argparse.Namespace) -> None:
    from wirecodec.info_text import text

    with options.file.open("rb") as file:
        infos = [inspect(blob) for blob in iter_blobs(file, limits=UNLIMITED)]
    if not infos:
        raise ValueError(f"{options.file} is empty")
    if options.json:
        print(json.dumps([_plain(info) for info in infos], indent=2))
        return
    for info in infos:
        print(text(info))


def _verify(options: argparse.Namespace) -> int:
    """0 where every file is containers that decode under the default limits, 1 otherwise."""
    verdicts = [_verdict(path) for path in options.files]
    for verdict in verdicts:
        print(json.dumps(verdict) if options.json else _line(verdict))
    return int(any("code" in verdict for verdict in verdicts))


def _verdict(path: Path) -> dict[str, Any]:
    """What is said of a file: its containers and bytes; and where it is not valid, kind, code and place.

    ``offset`` is counted in the file, ``entry`` in the table of its ``container``-th container, from 0.
    """
    said: dict[str, Any] = {"file": str(path), "containers": 0, "bytes": 0}
    try:
        with path.open("rb") as file:
            for blob in iter_blobs(file):
                decode_many(blob)
                said["containers"] += 1
                said["bytes"] += blob.size
        if not said["containers"]:
            raise Truncated("prefix", "the file is empty")
    except WireError as error:
        offset = None if error.offset is None else said["bytes"] + error.offset
        said |= {"kind": type(error).__name__, "code": error.code, "message": error.message}
        said |= {"container": said["containers"], "offset": offset, "entry": error.entry}
    return said


def _line(verdict: Mapping[str, Any]) -> str:
    """A verdict for people."""
    file = printable(verdict["file"])
    count = counted(verdict["containers"], "container", "containers")
    if "code" not in verdict:
        return f"{file}: valid, {count}, {verdict['bytes']:,} bytes"
    places = [f"{name} {verdict[name]}" for name in ("container", "entry") if verdict[name] is not None]
    places += [f"byte {verdict['offset']}"] if verdict["offset"] is not None else []
    said = printable(verdict["message"])
    return f"{file}: {verdict['kind']} {verdict['code']}: {said} ({', '.join(places)})"


def _plain(info: ContainerInfo) -> dict[str, Any]:
    return {**dataclasses.asdict(info), "tag": info.tag.hex()}


def _stats(options: argparse.Namespace) -> None:
    from wirecodec.stats import gradient_stats, text

    tensors = _tensors(options.file)
    if options.png is not None and len(tensors) != 1:
        raise ValueError(f"{options.file} holds {len(tensors)} tensors; a picture shows one")
    for name, tensor in tensors.items():
        try:
            stats = gradient_stats(tensor)
        except EncodeError as error:
            raise error.of(name) from None
        if options.png is not None:
            from wirecodec.stats_picture import draw

            draw(stats, printable(name), options.png)
        print(text(stats, printable(name)))


def _bench(options: argparse.Namespace) -> None:
    from wirecodec.rates import Trial, bench_text, measure, zeros_for

    scheme = _scheme(options)
    tensors = _gradient(options.file)
    with _progress("measuring") as done:
        machine = measure(tensors, [Trial.of(tensors, scheme, zeros_for(tensors))], done=done)
    print(bench_text(machine, printable(options.file.name)))


def _advise(options: argparse.Namespace) -> None:
    from wirecodec.advice import advise, scheme_named
    from wirecodec.advice_text import text

    ranks = _SOME_RANKS if options.ranks is None else options.ranks
    network = Network(ranks, bandwidth_of(options.bandwidth), seconds_of(options.latency))
    schemes = options.scheme and [scheme_named(scheme) for scheme in options.scheme]
    gradient = _gradient(options.file)
    with _progress("measuring") as done:
        advice = advise(gradient, network, schemes, done=done)
    name = printable(options.file.name)
    if options.png is not None:
        from wirecodec.advice_picture import draw

        draw(advice, name, options.png)
    print(text(advice, name, error=options.error, others=_RANKS if options.ranks is None else ()))


@contextmanager
def _progress(what: str) -> Iterator[Callable[[float], object]]:
    """Shows the share of long work that is done, where somebody watches: a bar by rich, or else a line."""
    if not sys.stderr.isatty():
        yield lambda share: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        print(f"{what} …", file=sys.stderr)
        yield lambda share: None
        return
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=1.0)
        yield lambda share: progress.update(task, completed=share)


def _tensors(path: Path) -> dict[str, Any]:
    """The arrays of an .npz by their names; the one of a .npy by that of its file."""
    loaded = _loaded(path)
    return {path.name: loaded} if isinstance(loaded, np.ndarray) else loaded


def _loaded(path: Path) -> Any:
    """The array of a .npy, or {name: array} of an .npz; ValueError, OSError or MemoryError otherwise."""
    with path.open("rb") as file:
        if not file.read(6).startswith((b"\x93NUMPY", b"PK")):
            raise ValueError(f"{path} is neither a .npy nor an .npz")
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return dict(loaded)
    except (ValueError, OSError, MemoryError):
        raise
    except Exception as error:  # of files that are damaged the readers of NumPy and of zips let through any
        raise ValueError(f"{path} cannot be read: {error}") from None


def _gradient(path: Path) -> dict[str, Any]:
    """The same, as elements that can be measured: at least one, and of a type that is carried."""
    tensors = _tensors(path)
    for name, tensor in tensors.items():
        try:
            as_flat(tensor)
        except EncodeError as error:
            raise error.of(name) from None
    if not any(tensor.size for tensor in tensors.values()):
        raise ValueError(f"{path} holds no elements: there is nothing to measure")
    return tensors


def _presets(options: argparse.Namespace) -> None:
    for name, preset in PRESETS.items():
        print(f"{name}: {preset.scheme}\n    {preset.source}")


def _encode(options: argparse.Namespace) -> None:
    loaded = _loaded(options.file)
    how = encode if isinstance(loaded, np.ndarray) else encode_many
    options.output.write_bytes(how(loaded, _scheme(options), seed=options.seed).data)


def _decode(options: argparse.Namespace) -> None:
    limits = DecodeLimits(max_expansion=UNLIMITED.max_expansion)  # the file is the user's own choice
    with options.file.open("rb") as file:
        blobs = list(iter_blobs(file, limits=limits))
    if len(blobs) != 1:
        raise ValueError(
            f"{options.file} holds {len(blobs)} containers; decode takes one, wirecodec.iter_blobs reads all"
        )
    tensors = decode_many(blobs[0], limits=limits)
    several = options.output.suffix == ".npz"
    if not several and len(tensors) != 1:
        raise ValueError(f"{options.file} holds {len(tensors)} tensors; give an output that ends in .npz")
    dense = {name: _storable(tensor.to_dense()) for name, tensor in tensors.items()}
    if several:
        _save_npz(options.output, dense)
    else:
        with options.output.open("wb") as file:
            np.save(file, next(iter(dense.values())))


def _save_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """What ``numpy.savez`` writes, for any names: its own parameters are no names to it."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, x in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(x), allow_pickle=False)


def _storable(x: Any) -> Any:
    """bfloat16 as float32: a .npy file knows no bfloat16."""
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


if __name__ == "__main__":
    sys.exit(main())
