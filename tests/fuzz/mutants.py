"""Mutation testing of the decoding side: finds changes to its Python code that no test detects.

    python -m tests.fuzz.mutants [--sample N] [--seed N] [--again] [--write] [--reference] [--vectors]
                                 [--later] [--minutes N] [--verdicts FILE]

A mutant is one function with one comparison, operator, constant or check changed. A forked child replaces the
function's code. It runs the golden vectors and probes that execute the function until one result differs.
The library reads each vector through every public function (``ways``). If all results are right, a second
child tells whether other functions of the decoder run: a change of a shortcut is visible only there.
``--write`` writes tests/fuzz/MUTANTS.md and keeps the reasons given there for survivors. ``--again`` tries
only those survivors, after vectors were added. ``--reference`` changes the reference decoder instead of the
library, ``--vectors`` runs no probes. tests/fuzz/mutants_c.py does the same with the C decoder.

``--later`` changes only the readers of version 1.1, and runs vectors alone. ``--write`` then writes their
section of tests/fuzz/MUTANTS_1_1.md. ``--verdicts`` keeps the verdicts in a file. A run continues from it: it
tries the survivors again, and mutants without a verdict. ``--minutes`` ends it early; the order is random.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import inspect
import math
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from formats import conformance, reference
from formats.streams import CONTAINERS, UNITS, Split, Stream, check_stream, load_streams, reference_of
from formats.zstd import find_decompressor
from tests.fuzz import mutant_pages
from tests.fuzz.judge import library
from tests.fuzz.mutant_pages import PATH, UNKNOWN, Row, Verdicts
from tests.fuzz.probes import PROBES
from tests.fuzz.ways import Ways, bounded, splits_of
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
    r"(annotations|container|bits|element_types|floats|extension|limits|packed_codes|prng|records|stream|table"
    r"|tensors|(value|index|map|transform)/\w+)\.py"
)
"""The same of the reference decoder, relative to ``REFERENCE``."""
LATER = re.compile(
    r"(container/(annotations|extension_reader|members|records|stream)\.py: .*"
    r"|container/schema\.py: (TensorSpecs\.\w+|dtypes_of|plain_spec|require_floats|_check_digest)"
    r"|container/(inspect\.py: inspect|table\.py: check_table)"
    r"|cpu/(chunk\.py: (_types|decode_values)|decode\.py: (decode_chunks|invert_transform))"
    r"|cpu/fuse\.py: split_(fused|joined))"
)
"""The readers of version 1.1 in the library, as ``Mutant.where`` names them."""
REFERENCE_LATER = re.compile(
    r"((annotations|element_types|extension|records|stream|table|tensors)\.py: .*"
    r"|container\.py: (decode|_decode_entry)|transform/coefficients\.py: (check|read)_lengths)"
)
"""The same of the reference decoder."""
SECONDS = 20
"""CPU seconds that the trials of one mutant may take, beyond three times what they take without a change.
Wall time would count a slow machine as a detection."""

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
    """A trial, the functions of the decoder that it executes, its vector's outcome, and its CPU seconds."""

    trial: Trial
    ran: frozenset[Place]
    outcome: tuple[Any, ...]
    seconds: float

    @property
    def kind(self) -> Any:
        """Trials of one kind rarely differ in what they detect."""
        return self.ran, self.outcome


@dataclass(frozen=True)
class Target:
    """A decoder under test: its folder, package, modules of the decoding side, decode function, and the
    functions that read version 1.1."""

    root: Path
    package: str
    modules: re.Pattern[str]
    decode: conformance.Decode
    later: re.Pattern[str]
    probed: bool


LIBRARY_TARGET = Target(ROOT, "wirecodec", DECODING, library, LATER, True)
REFERENCE_TARGET = Target(
    REFERENCE, "formats.reference", REFERENCE_DECODING, conformance.reference, REFERENCE_LATER, False
)


def list_trials(
    target: Target = LIBRARY_TARGET,
) -> Iterator[tuple[Trial, conformance.Vector | Stream | None]]:
    """Yield the golden vectors and streams and, for the library, all ways of reading them and the probes."""
    for vector in vectors():
        yield partial(conforms, vector, target.decode), vector
    if target.root == ROOT:
        yield from ((Ways(vector), vector) for vector in vectors())
    else:
        yield from ((partial(has_meta, vector), vector) for vector in vectors() if vector.meta)
    splits = list(splits_of()) if target.root == ROOT else [(kind, reference_of(kind)) for kind in KINDS]
    for stream in load_streams():
        yield from ((partial(is_split, stream, kind, split), stream) for kind, split in splits)
    for probe in PROBES.values() if target.probed else ():
        yield partial(_is_unchanged, probe, probe()), None


KINDS = UNITS, CONTAINERS


def is_split(stream: Stream, kind: str, split: Split) -> bool:
    return check_stream(bounded(split), stream, kind) is None


def has_meta(vector: conformance.Vector) -> bool:
    """Tell whether the reference reads the metadata of a valid vector."""
    schema: Any = vector.schema or (vector.one and vector.one.tensor and {"": vector.one.tensor})
    limits = reference.Limits(**vector.limits)
    found = reference.decode(
        vector.data, limits, schema, single=vector.one is not None, zstd=find_decompressor()
    )
    tensors = {found.tensors[key].name: texts for key, texts in found.meta.tensors.items()}
    return {"container": found.meta.container, "tensors": tensors} == vector.meta


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
        start = time.process_time()
        assert trial(), trial  # what runs only once, such as a cached function, is not traced
        seconds = time.process_time() - start
        _, ran = run_traced(trial, target)
        known = Known(trial, ran, _outcome_of(vector), seconds)
        if isinstance(trial, Ways) and known.kind in seen:
            continue
        if isinstance(trial, Ways):
            seen.add(known.kind)
        for place in ran:
            found.setdefault(place, []).append(known)
    return found


def _outcome_of(vector: conformance.Vector | Stream | None) -> tuple[Any, ...]:
    if vector is None:
        return ()
    if isinstance(vector, Stream):
        return vector.outcome.result, vector.outcome.code, bool(vector.limits)
    return vector.result, vector.code, bool(vector.limits), bool(vector.expected)


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


def is_killed(mutant: Mutant, noticing: Sequence[Trial], seconds: float = SECONDS) -> bool:
    """Return whether a trial detects the mutant: by another result, an exception, or more CPU seconds."""

    def check() -> bool:
        _clear_caches()
        return all(trial() for trial in noticing)

    return _fails(mutant, check, seconds)


def takes_another_path(mutant: Mutant, noticing: Sequence[Known], target: Target) -> bool:
    """Return whether other functions of the decoder run in a trial, although its result is the same."""
    return _fails(
        mutant, lambda: all(run_traced(each.trial, target)[1] == each.ran for each in noticing), 3 * SECONDS
    )


def _fails(mutant: Mutant, check: Callable[[], bool], seconds: float) -> bool:
    """Return whether a check fails in a child with the mutant."""
    code = compile_mutant(mutant)
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, seconds)
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


def read_reasons() -> dict[Row, str]:
    """Read the reasons for survivors from the page: {row: reason}."""
    return mutant_pages.read_reasons(PAGE)


def identify_mutants(every: Sequence[Mutant]) -> dict[Mutant, Row]:
    """Return the two columns that identify each mutant on the page; repeated ones are numbered."""
    sources = {
        name: inspect.getsource(sys.modules[name]).splitlines()
        for name in {mutant.function.__module__ for mutant in every}
    }
    rows = (
        (m.where, f"{m.change} in {mutant_pages.shorten(sources[m.function.__module__][m.line - 1])}")
        for m in every
    )
    return dict(zip(every, mutant_pages.number_rows(rows), strict=True))


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
    parser.add_argument("--later", action="store_true", help="only the readers of version 1.1; no probes")
    parser.add_argument("--minutes", type=float, default=math.inf, help="end after this time")
    parser.add_argument("--verdicts", type=Path, help="file of verdicts from which a run continues")
    options = parser.parse_args(arguments)
    np.seterr(all="ignore")
    target = REFERENCE_TARGET if options.reference else LIBRARY_TARGET
    if options.vectors or options.later:
        target = replace(target, probed=False)
    ran = find_trials(target)
    every = list(list_mutants(ran, target))
    rows = identify_mutants(every)
    if options.later:
        later = {mutant: row for mutant, row in rows.items() if target.later.fullmatch(mutant.where)}
        return _try_later(target, later, ran, options)
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
        killed, path = _judge(mutant, noticing, target)
        if not killed:
            survivors[rows[mutant]] = path
    text = format_page(tried, of, seed, survivors)
    print(text.split("\n\n")[2])
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    return int(10 * len(survivors) > tried)


def _judge(mutant: Mutant, noticing: Sequence[Known], target: Target) -> tuple[bool, bool]:
    """Return whether a mutant is killed and, if it is not, whether other functions run; print a survivor."""
    seconds = SECONDS + 3 * sum(each.seconds for each in noticing)
    if is_killed(mutant, [each.trial for each in noticing], seconds):
        return True, False
    print(f"{mutant.where}, line {mutant.line}: {mutant.change}", flush=True)
    few = list({each.kind: each for each in noticing}.values())
    return False, takes_another_path(mutant, few, target)


def _try_later(
    target: Target,
    rows: Mapping[Mutant, Row],
    ran: Mapping[Place, Sequence[Known]],
    options: argparse.Namespace,
) -> int:
    """Try the readers of version 1.1 for some minutes; return 0 if 96 % of those tried are killed."""
    end = time.monotonic() + 60 * options.minutes
    verdicts = Verdicts(options.verdicts)
    for mutant in random.Random(options.seed).sample(list(rows), len(rows)):
        if time.monotonic() > end:
            break
        if not verdicts.killed.get(rows[mutant]):
            noticing = order_trials(ran[place_of(mutant.function.__code__)])
            killed, path = _judge(mutant, noticing, target)
            verdicts.add(rows[mutant], killed=killed, path=path)
    if options.write:
        title = "Reference" if options.reference else "Library"
        command = f"python -m tests.fuzz.mutants{' --reference' * options.reference} --later --write"
        mutant_pages.write_section(title, command, rows.values(), verdicts, options.seed)
    tried = [verdicts.killed[row] for row in rows.values() if row in verdicts.killed]
    print(f"{len(tried)} of {len(rows)} mutants were tried; {sum(tried)} were killed.")
    return int(100 * sum(tried) < 96 * len(tried))


if __name__ == "__main__":
    sys.exit(main())
