"""Mutation testing of the compiled readers of patches of weights: finds changes that no golden patch detects.

    python -m tests.fuzz.mutants_kernels [--sample N] [--seed N] [--minutes N] [--verdicts FILE] [--write]

A mutant is one kernel with one comparison, operator or constant changed (``mutation``). A forked child
compiles the changed module without the cache on disk, with bounds checks, and applies the golden patches
until one result differs. A change that reads or writes outside an array, crashes or hangs is detected, too.
Its options and pages are those of tests/fuzz/mutants.py.
"""

from __future__ import annotations

import ast
import copy
import importlib
import os
import random
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numba

from formats.patches import Patch, load_patches
from tests.fuzz import mutant_pages, mutation
from tests.fuzz.mutant_pages import Row, Verdict
from tests.fuzz.mutants import parse_options, try_mutants
from tests.fuzz.patches import library
from tests.fuzz.trials import is_applied
from wirecodec.kernels.compiler import jit

PACKAGE = "wirecodec.kernels.cpu.patch"
KERNELS = {
    "rans": ("pull", "read_states", "has_ended"),
    "positions": (
        *("weigh_pairs", "classify", "classify_run", "accumulate", "pick_class", "rise", "slot_of"),
        *("invert_slopes", "find_place", "skip_reaches", "leave", "find_span", "find_in_span"),
        "read_positions",
    ),
    "steps": ("from_step", "add", "read_tables", "read_steps"),
    "digest": (
        *("mix", "fold", "add_words", "digest_words", "read_word", "add_bytes", "digest_arrays"),
        *("digest_changes", "take_part", "digest_part", "digest_pairs", "take", "take_arrays", "exchange"),
    ),
}
"""The modules in the order of their imports, and the functions that readers run."""
SECONDS = 40
"""CPU seconds that a child may take."""


@dataclass(frozen=True)
class Mutant:
    """A function of a module, its changed line, and the change; ``spot`` is a position in a walk of it."""

    module: str
    function: str
    line: int
    change: str
    spot: int


def read_source(module: str) -> str:
    """Return the text of a module of kernels."""
    return Path(str(importlib.import_module(f"{PACKAGE}.{module}").__file__)).read_text(encoding="utf-8")


def functions_of(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Return the functions of a module by name."""
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def list_mutants() -> Iterator[Mutant]:
    """Yield every mutant."""
    for module, names in KERNELS.items():
        found = functions_of(ast.parse(read_source(module)))
        for name in names:
            for spot, line, change in mutation.changes_of(found[name]):
                yield Mutant(module, name, line, change, spot)


def identify_mutants() -> dict[Row, Mutant]:
    """Return the mutants by the columns that identify each on the page."""
    every = list(list_mutants())
    lines = {module: read_source(module).splitlines() for module in KERNELS}
    rows = mutant_pages.number_rows(
        (
            f"kernels/cpu/patch/{m.module}.py: {m.function}",
            f"{m.change} in {mutant_pages.shorten(lines[m.module][m.line - 1])}",
        )
        for m in every
    )
    return dict(zip(rows, every, strict=True))


def _refuse(source: str) -> None:
    raise RuntimeError("no folder is writable")


def change_modules(mutant: Mutant) -> None:
    """Replace the changed module, and those that import it, by new ones that compile without a cache."""
    vars(jit)["prefer_folder_beside"] = _refuse
    numba.config.BOUNDSCHECK = 1
    warnings.simplefilter("ignore")
    package = sys.modules[PACKAGE]
    modules = list(KERNELS) if mutant.module == "rans" else [mutant.module]
    for name in modules:
        tree = ast.parse(read_source(name))
        if name == mutant.module:
            mutation.apply_change(
                list(ast.walk(functions_of(tree)[mutant.function]))[mutant.spot], mutant.change
            )
            ast.fix_missing_locations(tree)
        made = copy.copy(vars(sys.modules[f"{PACKAGE}.{name}"]))
        module = ModuleType(f"{PACKAGE}.{name}")
        module.__dict__.update({key: value for key, value in made.items() if key.startswith("__")})
        exec(compile(tree, str(made["__file__"]), "exec"), vars(module))
        sys.modules[f"{PACKAGE}.{name}"] = module
        setattr(package, name, module)


def judge(mutant: Mutant, vectors: Sequence[Patch]) -> Verdict:
    """Apply the patches in a child with the mutant."""
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        try:
            change_modules(mutant)
            right = all(is_applied(patch, library) for patch in vectors)
        except BaseException:
            right = False
        os._exit(0 if right else 1)
    return Verdict.KILLED if os.waitpid(child, 0)[1] else Verdict.SURVIVES


def order_of(patch: Patch) -> tuple[bool, bool]:
    """Return a key by which patches that show most come first, and all of one type: each is compiled."""
    return patch.target is None, {dtype for dtype, _, _ in patch.state.values()} != {"bfloat16"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return what ``try_mutants`` does."""
    options = parse_options("mutants_kernels", arguments)
    every = identify_mutants()
    rows = random.Random(options.seed).sample(list(every), len(every))
    vectors = sorted(load_patches(), key=order_of)
    assert all(is_applied(patch, library) for patch in vectors)
    return try_mutants("kernels-patches", rows, lambda row: judge(every[row], vectors), options)


if __name__ == "__main__":
    sys.exit(main())
