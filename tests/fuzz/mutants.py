"""Mutation testing of the decoding side: finds changes to its Python code that no test detects.

    python -m tests.fuzz.mutants [--sample N] [--seed N] [--again] [--write] [--reference] [--vectors]

A mutant is one function with one comparison, operator, constant or check changed. A forked child replaces the
function's code. It runs the golden vectors and probes that execute the function until one result differs.
The library reads each vector through every public function (``ways``). If all results are right, a second
child tells whether other functions of the decoder run: a change of a shortcut is visible only there.
``--write`` writes tests/fuzz/MUTANTS.md and keeps the reasons given there for survivors. ``--again`` tries
only those survivors, after vectors were added. ``--reference`` changes the reference decoder instead of the
library, ``--vectors`` runs no probes. tests/fuzz/mutants_c.py does the same with the C decoder.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import inspect
import os
import random
import re
import signal
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from formats import conformance
from tests.fuzz.judge import library
from tests.fuzz.probes import PROBES
from tests.fuzz.ways import Ways
from tests.golden import vectors

PAGE = Path(__file__).parent / "MUTANTS.md"
ROOT = PAGE.parents[2] / "wirecodec"
DECODING = re.compile(
    r"(container/\w+|cpu/(fast/(add|decode)|add|chunk|chunk_store|decode|entry|fuse)|kernels/canonical_huffman"
    r"|pipeline|decode_into|(value|index|transform)/\w+)\.py"
)
"""The modules of the decoding side, relative to ``ROOT``."""
REFERENCE = ROOT.parent / "formats" / "reference"
REFERENCE_DECODING = re.compile(
    r"(container|bits|element_types|floats|extension|limits|packed_codes|prng|records|table|tensors"
    r"|(value|index|map|transform)/\w+)\.py"
)
"""The same of the reference decoder, relative to ``REFERENCE``."""
SECONDS = 60
"""CPU seconds that the trials of one mutant may take. Wall time would count a slow machine as a detection."""

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq},
    **{ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr},
}


@dataclass(frozen=True)
class Mutant:
    """A function, the changed line and the change; ``spot`` is a position in a walk of the function."""

    function: FunctionType
    path: str
    line: int
    change: str
    tree: ast.Module
    defined: int
    spot: int

    @property
    def where(self) -> str:
        """Module and function, as the page names them."""
        return f"{self.path}: {self.function.__qualname__}"


Trial = Callable[[], bool]
"""A check that returns whether a result is the expected one."""
Place = tuple[str, int, str]
"""A function: its file, first line and name, which a mutant shares with it."""


@dataclass(frozen=True)
class Known:
    """A trial, the functions of the decoder that it executes, and the outcome of the vector that it reads."""

    trial: Trial
    ran: frozenset[Place]
    outcome: tuple[Any, ...]

    @property
    def kind(self) -> Any:
        """Trials of one kind rarely differ in what they detect."""
        return self.ran, self.outcome


@dataclass(frozen=True)
class Target:
    """A decoder under test: its folder, package, modules of the decoding side, and decode function."""

    root: Path
    package: str
    modules: re.Pattern[str]
    decode: conformance.Decode
    probed: bool


LIBRARY_TARGET = Target(ROOT, "wirecodec", DECODING, library, True)
REFERENCE_TARGET = Target(REFERENCE, "formats.reference", REFERENCE_DECODING, conformance.reference, False)


def list_trials(target: Target = LIBRARY_TARGET) -> Iterator[tuple[Trial, conformance.Vector | None]]:
    """Yield the golden vectors and, for the library, all ways of reading them and the probes."""
    for vector in vectors():
        yield partial(conforms, vector, target.decode), vector
    if target.root == ROOT:
        yield from ((Ways(vector), vector) for vector in vectors())
    for probe in PROBES.values() if target.probed else ():
        yield partial(_is_unchanged, probe, probe()), None


def conforms(vector: conformance.Vector, decode: conformance.Decode = library) -> bool:
    return conformance.check(decode, vector) is None


def _is_unchanged(probe: Callable[[], list[str]], before: list[str]) -> bool:
    return probe() == before


def find_trials(target: Target = LIBRARY_TARGET) -> dict[Place, list[Known]]:
    """Return the trials that execute each function of the decoding side.

    Of several ``Ways`` of one kind, only the first is used.
    """
    found: dict[Place, list[Known]] = {}
    seen: set[Any] = set()
    for trial, vector in list_trials(target):
        assert trial(), trial  # what runs only once, such as a cached function, is not traced
        _, ran = run_traced(trial, target)
        outcome = (vector.result, vector.code, bool(vector.limits), bool(vector.expected)) if vector else ()
        known = Known(trial, ran, outcome)
        if isinstance(trial, Ways) and known.kind in seen:
            continue
        if isinstance(trial, Ways):
            seen.add(known.kind)
        for place in ran:
            found.setdefault(place, []).append(known)
    return found


def run_traced(trial: Trial, target: Target) -> tuple[bool, frozenset[Place]]:
    """Run a trial; return its result and the functions of the decoder that it executes."""
    ran: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            ran.add(frame.f_code)

    sys.setprofile(note)
    try:
        right = trial()
    finally:
        sys.setprofile(None)
    return right, frozenset(place_of(code) for code in ran if code.co_filename.startswith(str(target.root)))


def place_of(code: CodeType) -> Place:
    return code.co_filename, code.co_firstlineno, code.co_name


def list_functions(module: Any) -> Iterator[FunctionType]:
    """Yield the functions that a module defines, including methods."""
    for thing in vars(module).values():
        members = vars(thing).values() if inspect.isclass(thing) else (thing,)
        for member in members:
            if isinstance(member, property):
                member = member.fget  # noqa: PLW2901
            function = getattr(member, "__func__", member)
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield function


def list_mutants(ran: Container[Place] | None = None, target: Target = LIBRARY_TARGET) -> Iterator[Mutant]:
    """Yield every mutant of the functions in ``ran``, or of all functions of the decoding side."""
    for file in sorted(target.root.rglob("*.py")):
        path = file.relative_to(target.root).as_posix()
        if not target.modules.fullmatch(path):
            continue
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        module = importlib.import_module(f"{target.package}.{name}")
        tree = ast.parse(inspect.getsource(module))
        for function in list_functions(module):
            if ran is None or place_of(function.__code__) in ran:
                yield from mutate_function(function, path, tree)


def mutate_function(function: FunctionType, path: str, tree: ast.Module) -> Iterator[Mutant]:
    """Yield every mutant of one function of the module ``tree``."""
    code = function.__code__
    defined = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name == function.__name__
        and node.lineno <= code.co_firstlineno + len(node.decorator_list)
        and code.co_firstlineno <= node.lineno
    ]
    if len(defined) != 1:
        return
    for spot, line, change in _changes(defined[0]):
        yield Mutant(function, path, line, change, tree, defined[0].lineno, spot)


def compile_mutant(mutant: Mutant) -> CodeType:
    """Compile the function with the change."""
    whole = copy.deepcopy(mutant.tree)
    target = next(
        node
        for node in ast.walk(whole)
        if isinstance(node, ast.FunctionDef) and node.lineno == mutant.defined
    )
    _apply(list(ast.walk(target))[mutant.spot], mutant.change)
    ast.fix_missing_locations(whole)
    old = mutant.function.__code__
    code = _find_code(compile(whole, old.co_filename, "exec"), old)
    assert code is not None
    return code


def _find_code(code: CodeType, like: CodeType) -> CodeType | None:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            if part.co_name == like.co_name and part.co_firstlineno == like.co_firstlineno:
                return part
            if (inner := _find_code(part, like)) is not None:
                return inner
    return None


def _changes(function: ast.FunctionDef) -> Iterator[tuple[int, int, str]]:
    """Yield (position in the walk, line, change) of each change; messages and annotations are excluded."""
    excluded: set[int] = set()
    for node in ast.walk(function):
        untouched = [*getattr(node, "decorator_list", ()), getattr(node, "annotation", None)]
        untouched += [getattr(node, "returns", None), node.exc if isinstance(node, ast.Raise) else None]
        if isinstance(node, ast.JoinedStr):
            untouched.append(node)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("_refuse", "cast"):
            untouched += node.args[3:]
        for part in untouched:
            excluded.update(map(id, ast.walk(part)) if part is not None else ())
    for spot, node in enumerate(ast.walk(function)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Raise):
            yield spot, line, "no refusal"
        if id(node) in excluded:
            continue
        if isinstance(node, ast.Compare):
            for at, op in enumerate(node.ops):
                if type(op) in SWAPPED:
                    yield spot, line, f"{type(op).__name__} -> {SWAPPED[type(op)].__name__} #{at}"
        elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPPED:
            yield spot, line, f"{type(node.op).__name__} -> {SWAPPED[type(node.op)].__name__} #0"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield spot, line, "not x -> x"
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield spot, line, f"{node.value} -> {node.value + 1}"
            if node.value > 0:
                yield spot, line, f"{node.value} -> {node.value - 1}"
        elif isinstance(node, ast.If | ast.IfExp):
            yield spot, line, "if True"
            yield spot, line, "if False"


def _apply(node: Any, change: str) -> None:
    """Apply the change in place."""
    if change == "no refusal":
        node.exc = None
        node.__class__ = ast.Pass
        node._fields = ()
    elif change in ("if True", "if False"):
        node.test = ast.Constant(change == "if True")
    elif change == "not x -> x":
        node.op = ast.UAdd()
        node.__class__ = ast.Call
        node.func, node.args, node.keywords = ast.Name("bool", ast.Load()), [node.operand], []
        node._fields = ast.Call._fields
    elif isinstance(node, ast.Constant):
        node.value = int(change.split(" -> ")[1])
    else:
        at = int(change.split("#")[1])
        to = getattr(ast, change.split()[2])()
        if isinstance(node, ast.Compare):
            node.ops[at] = to
        else:
            node.op = to


def is_killed(mutant: Mutant, noticing: Sequence[Trial]) -> bool:
    """Return whether a trial detects the mutant: by another result, an exception, or a timeout."""

    def check() -> bool:
        _clear_caches()
        return all(trial() for trial in noticing)

    return _fails(mutant, check)


def takes_another_path(mutant: Mutant, noticing: Sequence[Known], target: Target) -> bool:
    """Return whether other functions of the decoder run in a trial, although its result is the same."""
    return _fails(mutant, lambda: all(run_traced(each.trial, target)[1] == each.ran for each in noticing))


def _fails(mutant: Mutant, check: Callable[[], bool]) -> bool:
    """Return whether a check fails in a child with the mutant."""
    code = compile_mutant(mutant)
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        mutant.function.__code__ = code
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        try:
            wrong = not check()
        except BaseException:
            wrong = True
        os._exit(1 if wrong else 0)
    return os.waitpid(child, 0)[1] != 0


def _clear_caches() -> None:
    """Clear the caches of functions: their results are from before the change."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("wirecodec", "formats"):
            for thing in list(vars(module).values()):
                if hasattr(thing, "cache_clear"):
                    thing.cache_clear()


def order_trials(noticing: Sequence[Known]) -> list[Known]:
    """Return the trials in an order that detects early: first one of each kind."""
    drawn = random.Random(1).sample(noticing, len(noticing))
    first = {each.kind: each for each in reversed(drawn)}
    return [*first.values(), *(each for each in drawn if first[each.kind] is not each)]


REASON = re.compile(r"^\| `(.+?)` \| `(.+?)` \| (.+?) \|$")


def read_reasons() -> dict[tuple[str, str], str]:
    """Read the reasons for survivors from the page: {row: reason}."""
    if not PAGE.exists():
        return {}
    rows = map(REASON.match, PAGE.read_text(encoding="utf-8").splitlines())
    return {(row[1], row[2]): row[3].removeprefix(PATH) for row in rows if row}


def identify_mutants(every: Sequence[Mutant]) -> dict[Mutant, tuple[str, str]]:
    """Return the two columns that identify each mutant on the page; repeated ones are numbered."""
    found: dict[Mutant, tuple[str, str]] = {}
    seen: dict[tuple[str, str], int] = {}
    for mutant in every:
        source = inspect.getsource(sys.modules[mutant.function.__module__]).splitlines()[mutant.line - 1]
        text = source.strip().replace("|", "\\|").replace("`", "'")[:70]
        row = mutant.where, f"{mutant.change} in {text}"
        seen[row] = seen.get(row, 0) + 1
        found[mutant] = row if seen[row] == 1 else (row[0], f"{row[1]} ({seen[row]})")
    return found


def format_page(tried: int, of: int, seed: int, survivors: Mapping[tuple[str, str], bool]) -> str:
    """Format tests/fuzz/MUTANTS.md; ``survivors`` tells of each row whether other functions run."""
    known = read_reasons()
    dead, paths = tried - len(survivors), sum(survivors.values())
    lines = [
        "# Mutants",
        "",
        "Each mutant changes one comparison, operator, constant, condition or raise statement in one",
        "function of the decoding side of `wirecodec/` (container, extension block, chunks, batches,",
        "tensors, codecs; the Python around the kernels). A mutant is killed if a golden vector or a probe",
        "gives another result. Vectors are read through every public function (`tests/fuzz/ways.py`).",
        "Probes (`tests/fuzz/probes.py`) cover what vectors cannot: streams, and codecs of experimental",
        "ids. `make mutants` writes this page.",
        "",
        f"{tried} of {of} mutants were tried (seed {seed}); {dead} were killed, {100 * dead / tried:.1f} %.",
        "",
        f"{paths} of the {len(survivors)} survivors are marked *path*: in all vectors the results are right,",
        "but other functions of the decoder run. They change a shortcut, or which implementation decodes.",
        "",
        "| survivor | change | why |",
        "|---|---|---|",
    ]
    for row, path in sorted(survivors.items()):
        lines.append(f"| `{row[0]}` | `{row[1]}` | {PATH if path else ''}{known.get(row, UNKNOWN)} |")
    return "\n".join(lines) + "\n"


PATH = "*path*: "
"""Mark of a survivor that changes which functions run."""
UNKNOWN = "not examined"
TRIED = re.compile(r"^(\d+) of (\d+) mutants were tried \(seed (\d+)\)", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 if at least nine of ten mutants are killed."""
    parser = argparse.ArgumentParser(prog="mutants", description="Mutation testing of the decoder.")
    parser.add_argument("--sample", type=int, default=200, help="number of mutants; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--again", action="store_true", help="try only the survivors of tests/fuzz/MUTANTS.md"
    )
    parser.add_argument("--write", action="store_true", help="write tests/fuzz/MUTANTS.md")
    parser.add_argument("--reference", action="store_true", help="change the reference decoder")
    parser.add_argument("--vectors", action="store_true", help="run golden vectors alone, no probes")
    options = parser.parse_args(arguments)
    np.seterr(all="ignore")
    target = REFERENCE_TARGET if options.reference else LIBRARY_TARGET
    if options.vectors:
        target = replace(target, probed=False)
    ran = find_trials(target)
    every = list(list_mutants(ran, target))
    rows = identify_mutants(every)
    selected, tried, of, seed = every, len(every), len(every), options.seed
    if options.again:
        old = TRIED.search(PAGE.read_text(encoding="utf-8"))
        assert old is not None, PAGE
        tried, of, seed = map(int, old.groups())
        selected = [mutant for mutant in every if rows[mutant] in read_reasons()]
    elif options.sample:
        selected = random.Random(seed).sample(every, min(options.sample, len(every)))
        tried = len(selected)
    survivors: dict[tuple[str, str], bool] = {}
    for mutant in selected:
        noticing = order_trials(ran[place_of(mutant.function.__code__)])
        if not is_killed(mutant, [each.trial for each in noticing]):
            few = list({each.kind: each for each in noticing}.values())
            survivors[rows[mutant]] = takes_another_path(mutant, few, target)
            print(f"{mutant.where}, line {mutant.line}: {mutant.change}", flush=True)
    text = format_page(tried, of, seed, survivors)
    print(text.split("\n\n")[2])
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    return int(10 * len(survivors) > tried)


if __name__ == "__main__":
    sys.exit(main())
