"""``wirecodec diff``: write the changes between two states of weights as a patch."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from typing import Any

from wirecodec.arrays import Bytes
from wirecodec.cli.encode import parse_container
from wirecodec.cli.files import STANDARD, FileArgument, name_file, name_of
from wirecodec.cli.formatting import escape, format_count, format_name
from wirecodec.cli.options import add_command, add_file
from wirecodec.cli.output import is_stream, open_output
from wirecodec.cli.patch_facts import PatchFacts, count_changed
from wirecodec.cli.progress import show_progress
from wirecodec.cli.state_files import StateFiles, open_state

_LEVEL = 3
"""Of Zstandard, as for ``wirecodec.diff``."""


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "diff",
        _run,
        "Write the changes between two states of weights as a patch",
        "The patch is lossless: wirecodec apply makes NEW of OLD. A state is a .safetensors, an .npz, or a "
        "folder of shards with model.safetensors.index.json. The sizes are printed, on standard error if "
        "standard output gets the patch.",
    )
    add_file(command, "the state before", name="old", metavar="OLD")
    add_file(command, "the state after", name="new", metavar="NEW")
    command.add_argument(
        "--base",
        choices=("read", "unread", "slices"),
        default="read",
        help="whether a reader reads all old elements, or those that change alone, which takes about 2.5 "
        "bits more per changed element, or may have slices of the tensors, .4 bits more (default: read)",
    )
    page = command.add_mutually_exclusive_group()
    page.add_argument("-q", "--quiet", action="store_true", help="do not print the sizes")
    page.add_argument("--json", action="store_true", help="print the sizes, and both digests, as JSON")
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=parse_container,
        required=True,
        help="the patch to write; any name that does not end in .npy, .npz or .safetensors; - is standard "
        "output",
    )


def _run(options: argparse.Namespace) -> int:
    from wirecodec.patch.compare import compare  # it imports kernels, which other commands do not need
    from wirecodec.patch.diff import write

    if options.old == options.new == STANDARD:
        raise ValueError("OLD and NEW are both standard input; name a file")
    old, new = open_state(options.old), open_state(options.new)
    touched, for_slices = options.base != "read", options.base == "slices"
    with name_file(options.new), show_progress("diff") as progress:
        _check_opaque(old, new)
        found = compare(old.arrays, new.arrays, touched=touched, progress=lambda part: progress(part / 2))
        blob = write(
            found,
            touched=touched,
            for_slices=for_slices,
            level=_LEVEL,
            progress=lambda part: progress((1 + part) / 2),
        )
    with open_output(options.output) as file:
        file.write(blob.data)
    if not options.quiet:
        sizes = _Sizes.of(found, old, new)
        page = sys.stderr if is_stream(options.output) else sys.stdout
        print(
            json.dumps(_to_json(options, sizes, blob), indent=2)
            if options.json
            else _format_sizes(options.new, sizes, blob),
            file=page,
        )
    return 0


@dataclass(frozen=True)
class _Sizes:
    """Sizes of a difference.

    Attributes:
        facts: what changes.
        elements, nbytes: of all tensors of the new state.
    """

    facts: PatchFacts
    elements: int
    nbytes: int

    @classmethod
    def of(cls, found: Any, old: StateFiles, new: StateFiles) -> _Sizes:
        """Count what differs between two states."""
        added = sum(change.name not in old.arrays for change in found.changes)
        changed = sum(
            change.indices.size
            if change.old is not None
            else count_changed(old.arrays.get(change.name), new.arrays[change.name])
            for change in found.changes
        )
        facts = PatchFacts(len(found.changes) - added, added, len(found.removed), changed)
        arrays = new.arrays.values()
        return cls(facts, sum(x.size for x in arrays), sum(x.nbytes for x in arrays))


def _to_json(options: argparse.Namespace, sizes: _Sizes, blob: Bytes) -> dict[str, Any]:
    """Return the files, the sizes and the digests in types that JSON has."""
    files = {"old": str(options.old), "new": str(options.new), "patch": str(options.output)}
    return files | {"elements": sizes.elements, "dense_bytes": sizes.nbytes} | sizes.facts.to_json([blob])


def _check_opaque(old: StateFiles, new: StateFiles) -> None:
    """Check that tensors whose types containers do not name keep them. Raises ValueError."""
    before, after = old.opaque, new.opaque
    for name in sorted(before.keys() | after.keys()):
        if name in new.arrays and before.get(name) != after.get(name):
            was, becomes = (kinds.get(name, "of another type, or absent") for kinds in (before, after))
            raise ValueError(
                f"tensor '{format_name(name)}' is {becomes}, and was {was}; a patch cannot name such a type."
                " Send the whole file"
            )


def _format_sizes(file: FileArgument, sizes: _Sizes, blob: Bytes) -> str:
    """Format the changes and the size of their patch as one line."""
    elements, changed = sizes.elements, sizes.facts.elements
    share = f" ({100 * changed / elements:.3g} %)" if elements else ""
    each = f", {8 * blob.nbytes / changed:.2f} bits each" if changed else ""
    return (
        f"{escape(name_of(file))}: {changed:,} of {elements:,} elements{share} of"
        f" {format_count(sizes.facts.changed + sizes.facts.new, 'tensor', 'tensors')} change; patch:"
        f" {blob.nbytes:,} bytes{each}, ratio {sizes.nbytes / blob.nbytes:.4g}"
    )
