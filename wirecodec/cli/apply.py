"""``wirecodec apply``: apply a patch to files of weights, in place or as new files."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.cli.files import STANDARD, FileArgument, format_file, name_file, open_input, parse_file
from wirecodec.cli.folder_output import complete, is_unfinished, replace_files, write_folder
from wirecodec.cli.formatting import escape, format_count
from wirecodec.cli.options import (
    NO_LIMIT,
    add_command,
    add_file,
    add_limit_options,
    get_limits,
    name_limit_options,
)
from wirecodec.cli.output import is_replaceable, is_stream, open_output
from wirecodec.cli.patch_facts import PatchFacts, count_changed
from wirecodec.cli.progress import show_progress
from wirecodec.cli.state_files import Shard, StateFiles, Target, open_state, shard_name
from wirecodec.comparison.measurement import ProgressCallback
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits

_LIMITS = dataclasses.replace(DEFAULT_LIMITS, max_dense=NO_LIMIT, max_elements=NO_LIMIT)
"""The base confirms the sizes of tensors that change; ``max_expansion`` bounds those of whole ones."""


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "apply",
        _run,
        "Apply a patch of wirecodec diff to files of weights",
        "Everything is checked before the first write. If BASE has the changes already, nothing is written. "
        "Without -o, files that change are replaced when all new ones are on the disk; a symbolic link is "
        "replaced, too, and its target stays. If a run on a folder is killed while it replaces files, the "
        "next one completes it.",
    )
    add_file(command, "one patch, or several in sequence", metavar="PATCH")
    add_file(command, ".safetensors, .npz, or a folder of shards with an index", name="base", metavar="BASE")
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=parse_file,
        help="the file or folder to write, of the same format as BASE, which stays as it is; - is standard "
        "output; a folder must be new, and gets the shards and the index",
    )
    page = command.add_mutually_exclusive_group()
    page.add_argument("-q", "--quiet", action="store_true", help="do not print what has changed")
    page.add_argument("--json", action="store_true", help="print what has changed, and both digests, as JSON")
    add_limit_options(command, _LIMITS)


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What a patch makes of a state.

    Attributes:
        targets: {name of the file: its tensors} of the shards that change.
        makers: {name: function that makes the tensor} of the tensors that change.
        added: number of new tensors.
        removed: number of tensors that are removed.
    """

    targets: Mapping[str, Target]
    makers: Mapping[str, Callable[[], Array]]
    added: int
    removed: int

    def count(self, elements: int) -> PatchFacts:
        """Return the numbers of tensors, with that of the elements that change."""
        return PatchFacts(len(self.makers) - self.added, self.added, self.removed, elements)


def _run(options: argparse.Namespace) -> int:
    if options.base == STANDARD and (options.output is None or options.file == STANDARD):
        raise ValueError("BASE is standard input; name the patch's file, and the output by -o")
    if options.output is None and isinstance(options.base, Path) and is_unfinished(options.base):
        complete(options.base)
        print(f"{escape(str(options.base))}: a run that was killed is complete now", file=sys.stderr)
    state = open_state(options.base)
    _check_output(state, options.output)
    patches, prepared = _prepare(options.file, state, get_limits(options))
    plan, elements = _make_plan(state, prepared), 0
    if plan.targets or options.output is not None:
        with show_progress("apply") as progress:
            elements = _write(state, plan, options.output, progress)
    if not options.quiet:
        page = sys.stderr if options.output is not None and is_stream(options.output) else sys.stdout
        facts = plan.count(elements)
        print(
            json.dumps(_to_json(options, facts, patches), indent=2)
            if options.json
            else f"{escape(format_file(options.base))}: {_format_facts(facts, options.output)}",
            file=page,
        )
    return 0


def _prepare(file: FileArgument, state: StateFiles, limits: DecodeLimits) -> tuple[list[Bytes], Any]:
    """Read patches, and check them against a state."""
    from wirecodec.patch.apply import prepare_all, split  # it imports kernels

    with name_file(file), open_input(file) as opened, name_limit_options():
        patches = split(np.frombuffer(opened.read(), np.uint8))
        return patches, prepare_all(patches, state.arrays, limits)


def _check_output(state: StateFiles, output: FileArgument | None) -> None:
    """Check that an output can hold a state. Raises ValueError."""
    if output is None:
        if isinstance(state.file, Path) and not state.is_folder and not is_replaceable(state.file):
            raise ValueError(f"{state.file}: it cannot be replaced; name the output by -o")
        return
    suffix = state.shards[0].suffix
    if state.is_folder:
        if not isinstance(output, Path) or (
            output.exists() and (not output.is_dir() or any(output.iterdir()))
        ):
            raise ValueError(
                f"{format_file(output)}: the base is a folder; name a folder that does not exist"
            )
    elif isinstance(output, Path) and output.suffix != suffix and not is_stream(output):
        raise ValueError(f"{output}: the base is a {suffix}; the output must end in {suffix}, too")


def _make_plan(state: StateFiles, prepared: Any) -> _Plan:
    """Assign the tensors of a patch to the files of a state; new ones go to the last file."""
    writes = {write.name: write for write in prepared.writes}
    added = [name for name in writes if name not in state.arrays]
    removed = set(prepared.removed)
    targets = {}
    for shard in state.shards:
        is_last = shard is state.shards[-1]
        own = {name: writes[name] for name in shard.arrays if name in writes}
        own |= {name: writes[name] for name in added} if is_last else {}
        if not own and not removed & shard.arrays.keys():
            continue
        names = [name for name in shard.arrays if name not in removed] + (added if is_last else [])
        specs = {
            name: (write.bits.shape, write.bits.dtype)
            for name, write in own.items()
            if write.replaces(state.arrays)
        }
        targets[shard_name(shard)] = Target(names, specs)
    makers = {name: partial(write.make, state.arrays) for name, write in writes.items()}
    return _Plan(targets, makers, len(added), len(removed))


def _write(state: StateFiles, plan: _Plan, output: FileArgument | None, progress: ProgressCallback) -> int:
    """Write the files that change, or all of them to another place.

    Returns:
        The number of elements that change.
    """
    chosen = [shard for shard in state.shards if output is not None or shard_name(shard) in plan.targets]
    targets = {
        shard_name(shard): plan.targets.get(shard_name(shard), Target(list(shard.arrays), {}))
        for shard in chosen
    }
    names = [name for target in targets.values() for name in target.names]
    done = changed = 0

    def make(name: str) -> Array:
        nonlocal done, changed
        done += 1
        progress(done / len(names))
        old = state.arrays.get(name)
        new = plan.makers[name]() if name in plan.makers else old
        assert new is not None
        changed += 0 if new is old else count_changed(old, new)
        return new

    def write(shard: Shard, file: BinaryIO) -> None:
        with name_file(state.file):
            shard.write(file, targets[shard_name(shard)], make)

    writers: dict[str, Callable[[BinaryIO], object]] = {
        shard_name(shard): partial(write, shard) for shard in chosen
    }
    if not state.is_folder:
        is_new = output is not None
        with open_output(output or state.file, durable=True, follow_links=is_new) as file:
            write(state.shards[0], file)
        return changed
    if (index := state.make_index(plan.targets, always=output is not None)) is not None:
        name, content = index
        writers[name] = lambda file: file.write(content)
    if isinstance(output, Path):
        write_folder(output, writers)
    else:
        assert isinstance(state.file, Path)
        replace_files(state.file, writers)
    return changed


def _to_json(options: argparse.Namespace, facts: PatchFacts, patches: Sequence[Bytes]) -> dict[str, Any]:
    """Return the files, what has changed, and the digests in types that JSON has."""
    output = None if options.output is None else str(options.output)
    return {"patch": str(options.file), "base": str(options.base), "output": output} | facts.to_json(patches)


def _format_facts(facts: PatchFacts, output: FileArgument | None) -> str:
    """Format what has changed."""
    if not (facts.changed or facts.new or facts.removed):
        done = "nothing has changed" if output is None else "the output is a copy"
        return f"it has these changes already; {done}"
    parts = [f"{format_count(facts.changed, 'tensor', 'tensors')} changed"]
    parts += [f"{facts.new} new"] if facts.new else []
    parts += [f"{facts.removed} removed"] if facts.removed else []
    return f"{', '.join(parts)}; {facts.elements:,} elements"
