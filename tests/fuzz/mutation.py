"""Mutants of the Python decoders: one function with one comparison, operator, constant or check changed."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import re
import sys
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from formats import conformance, patches
from tests.fuzz import mutant_pages
from tests.fuzz.judge import library
from tests.fuzz.mutant_pages import Row
from tests.fuzz.patches import library as apply_with_library

ROOT = Path(__file__).resolve().parents[2] / "wirecodec"
DECODING = re.compile(
    r"(container/\w+|cpu/(fast/(add|decode)|add|chunk|chunk_store|decode|entry|fuse)|kernels/canonical_huffman"
    r"|pipeline|decode_into|(value|index|transform)/\w+)\.py"
)
"""The modules of the decoding side, relative to ``ROOT``."""
REFERENCE_DECODING = re.compile(
    r"(annotations|container|bits|element_types|floats|extension|limits|packed_codes|prng|records|stream|table"
    r"|tensors|(value|index|map|transform)/\w+)\.py"
)
"""The same of the reference decoder, relative to its folder."""
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
OF_PATCHES = re.compile(r"(patch/(apply|digest|keys|positions|prepared|reading|steps)|container/based)\.py")
"""The modules of the library that read patches of weights, without those of the memory of tensors."""
REFERENCE_OF_PATCHES = re.compile(r"(patch|rans|index/by_class|value/steps)\.py")
"""The same of the reference."""

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq},
    **{ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr},
}


@dataclass(frozen=True)
class Target:
    """A decoder under test: its folder, package, modules of the decoding side, decode function, and the
    functions that read version 1.1.

    If it has ``apply``, it is a reader of patches, which the vectors of patches alone test.
    """

    root: Path
    package: str
    modules: re.Pattern[str]
    decode: conformance.Decode
    later: re.Pattern[str]
    apply: patches.Apply | None = None


LIBRARY = Target(ROOT, "wirecodec", DECODING, library, LATER)
REFERENCE = Target(
    ROOT.parent / "formats" / "reference",
    "formats.reference",
    REFERENCE_DECODING,
    conformance.reference,
    REFERENCE_LATER,
)
TARGETS = {
    "library": LIBRARY,
    "reference": REFERENCE,
    "library-patches": replace(LIBRARY, modules=OF_PATCHES, apply=apply_with_library),
    "reference-patches": replace(REFERENCE, modules=REFERENCE_OF_PATCHES, apply=patches.reference),
}
"""By the names of their tables."""

Place = tuple[str, int, str]
"""A function: its file, first line and name, which a mutant shares with it."""


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


@dataclass(frozen=True)
class Edit:
    """A function, and another text for a part of its source."""

    function: FunctionType
    old: str
    new: str


def find_edit(path: str, old: str, new: str, target: Target) -> Edit:
    """Return the edit of the one place where a module of a decoder has a text.

    Raises:
        ValueError: if the module has the text not once, or outside of its functions.
    """
    module = importlib.import_module(f"{target.package}.{path.removesuffix('.py').replace('/', '.')}")
    before, found, after = inspect.getsource(module).partition(old)
    if not found or old in after:
        raise ValueError(f"{path} does not have this text once: {old}")
    line = before.count("\n") + 1
    own = [one for one in list_functions(module) if one.__code__.co_filename == module.__file__]
    above = [one for one in own if one.__code__.co_firstlineno <= line]
    return Edit(max(above, key=lambda one: one.__code__.co_firstlineno), old, new)


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


def list_mutants(ran: Container[Place] | None = None, target: Target = LIBRARY) -> Iterator[Mutant]:
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
    for spot, line, change in changes_of(defined[0]):
        yield Mutant(function, path, line, change, tree, defined[0].lineno, spot)


def compile_mutant(mutant: Mutant | Edit) -> CodeType:
    """Compile the function with the change."""
    old = mutant.function.__code__
    if isinstance(mutant, Edit):
        text = inspect.getsource(sys.modules[mutant.function.__module__]).replace(mutant.old, mutant.new)
        code = _find_code(compile(text, old.co_filename, "exec"), old)
        assert code is not None
        return code
    whole = copy.deepcopy(mutant.tree)
    target = next(
        node
        for node in ast.walk(whole)
        if isinstance(node, ast.FunctionDef) and node.lineno == mutant.defined
    )
    apply_change(list(ast.walk(target))[mutant.spot], mutant.change)
    ast.fix_missing_locations(whole)
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


def changes_of(function: ast.FunctionDef) -> Iterator[tuple[int, int, str]]:
    """Yield (position in the walk, line, change) of each change.

    Messages, annotations and defaults are excluded; defaults are no part of a function's code.
    """
    excluded: set[int] = set()
    for node in ast.walk(function):
        untouched = [*getattr(node, "decorator_list", ()), getattr(node, "annotation", None)]
        untouched += [getattr(node, "returns", None), node.exc if isinstance(node, ast.Raise) else None]
        if isinstance(node, ast.arguments):
            untouched += [*node.defaults, *node.kw_defaults]
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


def apply_change(node: Any, change: str) -> None:
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
