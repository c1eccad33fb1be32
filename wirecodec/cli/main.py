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
is one line on stderr and exit code 2; ``verify`` says 1 where a file is not valid. An output that cannot be
written completely is left as it was.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from wirecodec.arrays import as_flat
from wirecodec.cli.array_files import MAX_NAME_BYTES, check_names, load_arrays, save_npz
from wirecodec.cli.cost_model import Network
from wirecodec.cli.formatting import counted, printable, shortened, shown
from wirecodec.cli.output import open_output
from wirecodec.cli.units import bandwidth_of, seconds_of
from wirecodec.errors import EncodeError, LimitExceeded, Truncated, WireError
from wirecodec.info import ContainerInfo, inspect
from wirecodec.limits import DEFAULT_LIMITS, UNLIMITED, DecodeLimits
from wirecodec.pipeline import decode_many, encode, encode_many
from wirecodec.presets import PRESETS, parse_preset
from wirecodec.scheme import Scheme, as_scheme
from wirecodec.stream import iter_blobs
from wirecodec.version import __version__

__all__ = ["main"]

_NONE = UNLIMITED.max_dense
_LIMITS = {
    "max_bytes": "bytes of a container",
    "max_entries": "tensors and chunks of a container",
    "max_elements": "stored elements",
    "max_dense": "elements of all tensors, stored or not",
    "max_work": "steps of index codecs",
    "max_expansion": "stored elements per byte of the container",
}
_NAMES = (
    "The arrays of an .npz have the names of the tensors. Such a name is a relative path without '..', "
    f"backslash or NUL, has at most {MAX_NAME_BYTES:,} bytes, and is no other name followed by '.npy'; "
    "other names are refused."
)
_SOME_RANKS = 8
_RANKS = (2, 4, 8, 16, 32, 64, 128)
"""What ``advise`` tells of where nobody says how many there are."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: the words after ``wirecodec``; None for those of this process.

    Returns:
        The exit code: 0; 1 if ``verify`` found a file that is not valid; 2 for a mistake; 130 after Ctrl-C;
        141 if whatever reads standard output has closed it.

    Raises:
        SystemExit: after ``--help`` and ``--version``, and with code 2 for options that cannot be parsed.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without "×" shows \xd7
    options = _parser().parse_args(arguments)
    try:
        status: int | None = options.run(options)
        sys.stdout.flush()
        return status or 0
    except BrokenPipeError:
        return 141
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except LimitExceeded as error:
        return _fail(f"{error}; --{error.code} sets this limit" if hasattr(options, "limits") else str(error))
    except MemoryError as error:
        hint = "; --max-dense limits what is allocated" if hasattr(options, "limits") else ""
        return _fail(f"not enough memory{f': {error}' if str(error) else ''}{hint}")
    except (ValueError, OSError, RecursionError) as error:
        return _fail(str(error))
    finally:
        _discard_unwritable()


def _fail(message: str, status: int = 2) -> int:
    """Print a message as one line, and return the exit code."""
    print(f"wirecodec: {shortened(printable(message), 2000)}", file=sys.stderr)
    return status


def _discard_unwritable() -> None:
    """Send standard output to the null device if it cannot be written: the interpreter flushes it again."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError), open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Parser of options whose errors are one line, like all others."""

    def error(self, message: str) -> NoReturn:
        """Print the mistake, and exit with code 2."""
        self.exit(_fail(f"{message} (see {self.prog} --help)"))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="wirecodec", description="Sparse gradients as compact bytes.")
    parser.add_argument("--version", action="version", version=f"wirecodec {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], int | None], about: str, more: str = ""
    ) -> Any:
        description = f"{about[0].upper()}{about[1:]}.{f' {more}' if more else ''}"
        added = commands.add_parser(name, help=about, description=description)
        added.set_defaults(run=run)
        return added

    write = command("encode", _encode, "a .npy or .npz as a container", _NAMES)
    write.add_argument("file", type=Path, help=".npy, or .npz, whose arrays all take the one scheme")
    _add_scheme(write)
    write.add_argument("--seed", type=int, default=0, help="for codecs that draw at random (default: 0)")
    write.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="the container")

    read = command("decode", _decode, "a container as a .npy, or as an .npz of all its tensors", _NAMES)
    read.add_argument("file", type=Path, help="one container")
    read.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help=".npy or .npz")
    _add_limits(read, dataclasses.replace(DEFAULT_LIMITS, max_dense=2**30, max_expansion=_NONE))

    look = command("inspect", _inspect, "what a file of containers holds")
    look.add_argument("file", type=Path, help="one container, or several one after the other")
    look.add_argument("--json", action="store_true", help="for programs")

    check = command("verify", _verify, "whether files are valid, and if not, why and where")
    check.add_argument("files", type=Path, nargs="+", metavar="file", help="containers one after the other")
    check.add_argument("--json", action="store_true", help="for programs: one line a file")
    _add_limits(check, DEFAULT_LIMITS)

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


def _add_limits(command: argparse.ArgumentParser, default: DecodeLimits) -> None:
    about = "Files above a limit are refused. N is an integer, or none for no limit."
    limits = command.add_argument_group("limits", about)
    for name, meaning in _LIMITS.items():
        value = getattr(default, name)
        written = "none" if value == _NONE else f"{value:,}"
        option = f"--{name.replace('_', '-')}"
        limits.add_argument(option, metavar="N", type=_limit, default=value, help=f"{meaning} ({written})")
    command.set_defaults(limits=True)


def _limit(text: str) -> int:
    """Parse a limit: an integer, 0 or more, or "none"."""
    if text == "none":
        return _NONE
    value = int(text)
    if value < 0:
        raise ValueError
    return value


def _limits(options: argparse.Namespace) -> DecodeLimits:
    return DecodeLimits(**{name: getattr(options, name) for name in _LIMITS})


def _scheme(options: argparse.Namespace) -> Scheme:
    """What ``_add_scheme`` was told; the name of a preset serves as a scheme, too."""
    from wirecodec.cli.advise import scheme_named

    if options.preset is not None:
        return parse_preset(options.preset)
    return as_scheme(None if options.scheme is None else scheme_named(options.scheme))


def _inspect(options: argparse.Namespace) -> None:
    from wirecodec.cli.inspect_page import text

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
    limits = _limits(options)
    verdicts = [_verdict(path, limits) for path in options.files]
    for verdict in verdicts:
        print(json.dumps(verdict) if options.json else _line(verdict))
    return int(any("code" in verdict for verdict in verdicts))


def _verdict(path: Path, limits: DecodeLimits) -> dict[str, Any]:
    """What is said of a file: its containers and bytes; and where it is not valid, kind, code and place.

    ``offset`` is counted in the file, ``entry`` in the table of its ``container``-th container, from 0.
    """
    said: dict[str, Any] = {"file": str(path), "containers": 0, "bytes": 0}
    try:
        with path.open("rb") as file:
            for blob in iter_blobs(file, limits=limits):
                decode_many(blob, limits=limits)
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
    from wirecodec.cli.stats import gradient_stats, text

    tensors = _tensors(options.file)
    if options.png is not None and len(tensors) != 1:
        raise ValueError(f"{options.file} holds {len(tensors)} tensors; a picture shows one")
    for name, tensor in tensors.items():
        try:
            stats = gradient_stats(tensor)
        except EncodeError as error:
            raise error.of(name) from None
        if options.png is not None:
            from wirecodec.cli.stats_picture import draw

            draw(stats, shown(name), options.png)
        print(text(stats, shown(name)))


def _bench(options: argparse.Namespace) -> None:
    from wirecodec.cli.measurement import Trial, bench_text, measure, zeros_for

    scheme = _scheme(options)
    tensors = _gradient(options.file)
    with _progress("measuring") as done:
        machine = measure(tensors, [Trial.of(tensors, scheme, zeros_for(tensors))], done=done)
    print(bench_text(machine, printable(options.file.name)))


def _advise(options: argparse.Namespace) -> None:
    from wirecodec.cli.advise import advise, scheme_named
    from wirecodec.cli.advise_page import text

    ranks = _SOME_RANKS if options.ranks is None else options.ranks
    network = Network(ranks, bandwidth_of(options.bandwidth), seconds_of(options.latency))
    schemes = options.scheme and [scheme_named(scheme) for scheme in options.scheme]
    gradient = _gradient(options.file)
    with _progress("measuring") as done:
        advice = advise(gradient, network, schemes, done=done)
    name = printable(options.file.name)
    if options.png is not None:
        from wirecodec.cli.advise_picture import draw

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
    loaded = load_arrays(path)
    return {path.name: loaded} if isinstance(loaded, np.ndarray) else loaded


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
    loaded = load_arrays(options.file)
    scheme, seed = _scheme(options), options.seed
    if isinstance(loaded, np.ndarray):
        blob = encode(loaded, scheme, seed=seed)
    else:
        blob = encode_many(loaded, scheme, seed=seed)
    with open_output(options.output) as file:
        file.write(blob.data)


def _decode(options: argparse.Namespace) -> None:
    limits = _limits(options)
    with options.file.open("rb") as file:
        blobs = list(iter_blobs(file, limits=limits))
    if len(blobs) != 1:
        raise ValueError(
            f"{options.file} holds {len(blobs)} containers; decode takes one, wirecodec.iter_blobs reads all"
        )
    tensors = decode_many(blobs[0], limits=limits)
    several = options.output.suffix == ".npz"
    if several:
        check_names(tensors)
    elif len(tensors) != 1:
        raise ValueError(f"{options.file} holds {len(tensors)} tensors; give an output that ends in .npz")
    dense = ((name, _storable(tensor.to_dense())) for name, tensor in tensors.items())
    with open_output(options.output) as file:
        if several:
            save_npz(file, dense)
        else:
            np.save(file, next(dense)[1])


def _storable(x: Any) -> Any:
    """bfloat16 as float32: a .npy file knows no bfloat16."""
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


if __name__ == "__main__":
    sys.exit(main())
