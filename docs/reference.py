"""The API reference: its pages, and the names on each of them.

This module reads the packages' files and imports none of them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from docs import ROOT

PACKAGES = ("wirecodec", "wirecodec.codecs", "wirecodec.selectors", "collectives")
"""The packages and modules whose `__all__` the API reference covers."""


@dataclass(frozen=True)
class Group:
    """A page of the API reference, and how its names are found.

    Args:
        slug: name of the page's file.
        title: the page's heading.
        text: what the names are for, in a sentence or two.
        modules: modules from which the names are imported; a package includes all of its modules.
        first: names that come first. The others follow, functions before classes.
    """

    slug: str
    title: str
    text: str
    modules: tuple[str, ...]
    first: tuple[str, ...] = ()


GROUPS = (
    Group(
        "encode",
        "Encode and decode",
        "Tensors become containers, and containers become tensors. Readers bound what a container may cost.",
        (
            *("wirecodec.pipeline", "wirecodec.decode_into", "wirecodec.sparse", "wirecodec.container"),
            *("wirecodec.limits", "wirecodec.patch", "wirecodec.files"),
        ),
        ("encode", "decode", "encode_many", "decode_many", "decode_add", "SparseTensor"),
    ),
    Group(
        "schemes",
        "Schemes",
        "A scheme names the stages of an encoder. Presets are the schemes of published systems.",
        (
            *("wirecodec.settings.scheme", "wirecodec.settings.presets", "wirecodec.comparison"),
            *("wirecodec.compilation", "wirecodec.registry", "wirecodec.version"),
            *("wirecodec.codecs", "wirecodec.selectors"),
        ),
        ("Scheme", "preset", "compare", "warm", "codecs", "selectors", "register"),
    ),
    Group(
        "training",
        "Training",
        "A Compressor keeps what was not sent. Feedbacks, schedules and rules are its settings.",
        ("wirecodec.compressor", "wirecodec.settings"),
        ("Compressor", "recipe", "ErrorFeedback", "MomentumCorrection", "WarmUp", "Rule", "rules"),
    ),
    Group(
        "exchange",
        "Exchange",
        "Tensors, or their sums, travel between ranks. All ranks get the same bits, or the same error.",
        ("collectives",),
        ("allreduce", "allgather", "allgather_bytes", "simulate", "Channel", "LocalUpdates", "local_recipe"),
    ),
    Group(
        "torch",
        "torch",
        "Hooks and helpers for programs that train with torch.",
        ("collectives.torch", "collectives.gloo"),
        ("torch_hook", "fsdp_hook", "average_gradients", "TorchComm"),
    ),
    Group(
        "errors",
        "Errors",
        "Each error has a type and a stable code or reason.",
        ("wirecodec.errors", "collectives.errors"),
        ("WireError", "EncodeError", "CollectiveError", "Timeout"),
    ),
    Group(
        "selectors",
        "Selectors",
        "The stage that chooses which elements are stored.",
        ("wirecodec.select",),
        ("TopK", "Budget", "All", "NonZero", "Threshold", "RandomK"),
    ),
    Group(
        "index-codecs", "Index codecs", "The stage that writes the indices as bytes.", ("wirecodec.index",)
    ),
    Group("value-codecs", "Value codecs", "The stage that writes the values as bytes.", ("wirecodec.value",)),
    Group(
        "transforms",
        "Transforms",
        "An optional first stage that replaces a tensor by its coefficients.",
        ("wirecodec.transform",),
    ),
    Group("other", "Other names", "Names that belong to no other page.", PACKAGES),
)
"""Pages of the API reference. A name is on the page that names the longest part of its module."""

API_START = "docs/api.md"
"""The page "Start here" of the API reference."""


@dataclass(frozen=True)
class ApiPage:
    """A page of the API reference.

    Args:
        path: the page's path on the site.
        title: the page's heading.
        names: dotted public names, in the order in which the page has them.
        text: what the names are for.
        members: the members that the page shows of some names; of others, all. A codec shows none, because an
            interface describes its methods, and a module those without an entry of their own.
    """

    path: str
    title: str
    names: tuple[str, ...]
    text: str = ""
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def markdown(self) -> str:
        """Return the page's text: a heading, and a mkdocstrings directive per name."""
        return f"# {self.title}\n\n{self.text}\n\n" + "".join(map(self._entry, self.names))

    def _entry(self, name: str) -> str:
        shown = self.members.get(name)
        options = (
            ""
            if shown is None
            else f"    options:\n      members: {json.dumps(list(shown)) if shown else 'false'}\n"
        )
        return f"::: {name}\n{options}\n"


def public_names(package: str, root: Path = ROOT) -> dict[str, str]:
    """Read the `__all__` of a package or module without importing it.

    Args:
        package: a dotted name.
        root: the folder that holds the package.

    Returns:
        The module that each public name is imported from; the package itself if it is imported from nowhere.

    Raises:
        ValueError: if the package has no literal `__all__`.
    """
    source = _source_of(package, root)
    imported = _imports(source)
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {name: imported.get(name) or package for name in ast.literal_eval(node.value)}
    raise ValueError(f"{source} has no literal __all__")


def api_pages(root: Path = ROOT) -> list[ApiPage]:
    """Make the pages of the API reference from every `__all__` in `PACKAGES`, after the page "Start here"."""
    found: dict[Group, list[str]] = {group: [] for group in GROUPS}
    members: dict[str, tuple[str, ...]] = {}
    for package in PACKAGES:
        names = public_names(package, root)
        for name, module in names.items():
            entry = f"{package}.{name}"
            if _is_module(name, module, root):
                found[_group_of(f"{module}.{name}")].append(entry)
                members[entry] = tuple(_own_members(_source_of(f"{module}.{name}", root), names))
                continue
            found[_group_of(module)].append(entry)
            if _is_implementation(name, module, root):
                members[entry] = ()
    return [
        ApiPage(f"api/{group.slug}.md", group.title, tuple(_in_order(names, group)), group.text, members)
        for group, names in found.items()
        if names
    ]


def link_names(text: str, root: Path = ROOT) -> str:
    """Link the public names in code of a page, such as `wc.encode`, to their entries in the API reference."""
    aliases = {"wc": "wirecodec", "co": "collectives"}
    public = {f"{package}.{name}" for package in PACKAGES for name in public_names(package, root)}

    def replace(match: re.Match[str]) -> str:
        name = f"{aliases[match[1]]}.{match[2]}"
        return f"[{match[0]}][{name}]" if name in public else match[0]

    return re.sub(r"`(wc|co)\.([\w.]+)`", replace, text)


def missing_names(anchors: Iterable[str], root: Path = ROOT) -> list[str]:
    """Return the public names without an entry among the anchors of the API reference."""
    present = set(anchors)
    return [name for page in api_pages(root) for name in page.names if name not in present]


def _source_of(module: str, root: Path) -> Path:
    """Return the file of a module, or of a package."""
    place = root.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def _imports(source: Path) -> dict[str, str]:
    """Return the names that a file imports from modules, and the dotted names of the modules."""
    return {
        alias.asname or alias.name: node.module or ""
        for node in ast.parse(source.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _group_of(module: str) -> Group:
    """Return the group that names the longest part of a module's dotted name."""
    parts = module.split(".")
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next(group for prefix in prefixes for group in GROUPS if prefix in group.modules)


def _in_order(names: Iterable[str], group: Group) -> list[str]:
    """Sort names: those that the group names first, then functions, then classes."""

    def rank(name: str) -> tuple[int, bool, str]:
        last = name.rpartition(".")[2]
        place = group.first.index(last) if last in group.first else len(group.first)
        return place, not last.islower(), last.lower()

    return sorted(names, key=rank)


def _own_members(source: Path, public: Iterable[str]) -> Iterator[str]:
    """Yield the documented functions and classes of a module that its package does not export."""
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        if node.name not in public and "Examples:" in (ast.get_docstring(node) or ""):
            yield node.name


def _is_module(name: str, package: str, root: Path) -> bool:
    """Tell whether a name that a package gives is a module of it, or else an object of the same name."""
    if not root.joinpath(*package.split("."), f"{name}.py").exists():
        return False
    return _imports(_source_of(package, root)).get(name, package) == package


def _is_implementation(name: str, package: str, root: Path) -> bool:
    """Tell whether a name is of a stage's package, and is no interface, which `base` defines."""
    if not root.joinpath(*package.split("."), "base.py").exists():
        return False
    return not public_names(package, root)[name].endswith(".base")
