"""Pages of the site: the files of the repository, their order, and the names of the API reference.

Every page keeps its path in the repository, so a relative link that works on a code host works on the site.
This module reads files only; `docs.hooks` hands its results to MkDocs.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = "https://github.com/wirecodec/wirecodec"
"""The project's home. Links to files that are not pages of the site lead there."""

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Home": ("README.md",),
    "Guides": (
        "docs/guides/where.md",
        "docs/guides/compress.md",
        "docs/guides/train.md",
        "docs/guides/*.md",
        "wirecodec/**/README.md",
        "collectives/**/README.md",
    ),
    "Format": ("formats/README.md", "formats/SPEC.md", "formats/**/*.md"),
    "Results": ("benchmarks/README.md", "benchmarks/**/*.md"),
    "Project": ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
}
"""The site's tabs: file patterns, in order. A file goes to the first pattern that matches it."""

_FOLDERS = {"index": "Index codecs", "value": "Value codecs", "map": "Maps", "transform": "Transforms"}

ASSETS = ("benchmarks/**/*.png", "docs/assets/*")

PACKAGES = ("wirecodec", "collectives")
"""The packages whose `__all__` the API reference covers."""

API_PAGES = {
    "wirecodec.select": "Selectors",
    "wirecodec.index": "Index codecs",
    "wirecodec.value": "Value codecs",
    "wirecodec.transform": "Transforms",
    "wirecodec.errors": "Errors",
}
"""Modules whose public names have a page of their own. All other names are on their package's page."""

_LINK = re.compile(r"(\]\(<?|^\[[^\]]+\]: +)([^)>\s]+)", re.MULTILINE)


@dataclass(frozen=True)
class ApiPage:
    """A page of the API reference.

    Args:
        path: the page's path on the site.
        title: the page's heading.
        names: dotted public names, in the order in which the page has them.
        without_members: those of the names whose methods are not shown, because an interface describes them.
    """

    path: str
    title: str
    names: tuple[str, ...]
    without_members: frozenset[str] = frozenset()

    def markdown(self) -> str:
        """Return the page's text: a heading, and a mkdocstrings directive per name."""
        options = "    options:\n      members: false\n"
        entries = (f"::: {name}\n{options * (name in self.without_members)}\n" for name in self.names)
        return f"# {self.title}\n\n" + "".join(entries)


def find_pages(root: Path = ROOT) -> dict[str, list[str]]:
    """Find the repository's pages.

    Args:
        root: the repository.

    Returns:
        Paths relative to root, per section of `SECTIONS`.
    """
    seen: set[str] = set()
    pages: dict[str, list[str]] = {}
    for section, patterns in SECTIONS.items():
        pages[section] = []
        for pattern in patterns:
            found = sorted(p.relative_to(root).as_posix() for p in root.glob(pattern))
            pages[section] += [path for path in found if path not in seen]
            seen.update(found)
    return pages


def find_assets(root: Path = ROOT) -> list[str]:
    """Find the pictures and other files that pages show, as paths relative to root."""
    return sorted(p.relative_to(root).as_posix() for pattern in ASSETS for p in root.glob(pattern))


def public_names(package: str, root: Path = ROOT) -> dict[str, str]:
    """Read a package's `__all__` without importing the package.

    Args:
        package: a dotted name.
        root: the folder that holds the package.

    Returns:
        The module that each public name is imported from; the package itself if it is imported from nowhere.

    Raises:
        ValueError: if the package has no literal `__all__`.
    """
    tree = ast.parse((root.joinpath(*package.split(".")) / "__init__.py").read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name: node.module or package
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {name: imported.get(name, package) for name in ast.literal_eval(node.value)}
    raise ValueError(f"{package}/__init__.py has no literal __all__")


def api_pages(root: Path = ROOT) -> list[ApiPage]:
    """Make the pages of the API reference from every `__all__` in `PACKAGES`."""
    pages = []
    for package in PACKAGES:
        modules = public_names(package, root)
        for page in (package, *(module for module in API_PAGES if module.startswith(f"{package}."))):
            names = [
                f"{package}.{name}" for name, module in modules.items() if _page_of(module, package) == page
            ]
            implementations = frozenset(_implementations(page, root)) if page in API_PAGES else frozenset()
            path = f"api/{page.replace('.', '-')}.md"
            pages.append(
                ApiPage(
                    path,
                    API_PAGES.get(page, page),
                    tuple(sorted(names, key=_functions_first)),
                    implementations & frozenset(names),
                )
            )
    return pages


def navigation(root: Path = ROOT) -> list[dict[str, object]]:
    """Return the site's menu in the form that MkDocs takes: sections of page paths."""
    menu: list[dict[str, object]] = []
    for section, paths in find_pages(root).items():
        menu.append({section: paths[0] if section == "Home" else _tree(paths)})
        if section == "Guides":
            menu.append({"API": [{page.title: page.path} for page in api_pages(root)]})
    return menu


def repository_links(text: str, page: str, is_on_site: Callable[[str], bool], root: Path = ROOT) -> str:
    """Point links to files that are not on the site at the project's home.

    Args:
        text: Markdown.
        page: the page's path relative to root.
        is_on_site: whether a path relative to root is a page or an asset.
        root: the repository.

    Returns:
        The text. A link that leads nowhere is left as it is, so that the build reports it.
    """

    def replace(match: re.Match[str]) -> str:
        before, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or ":" in path:
            return match[0]
        found = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if is_on_site(found) or not (root / found).exists():
            return match[0]
        kind = "tree" if (root / found).is_dir() else "raw" if found.endswith(".png") else "blob"
        return f"{before}{HOME}/{kind}/main/{found}" + (f"#{anchor}" if anchor else "")

    return _LINK.sub(replace, text)


def package_description(readme: str, root: Path = ROOT) -> str:
    """Turn the README into the package's description, for readers who do not have the repository.

    Args:
        readme: the text of README.md.
        root: the repository.

    Returns:
        The text with absolute links and pictures, and with commands that install from the package index.
    """
    text = repository_links(readme, "README.md", lambda path: False, root)
    text = text.replace("From a clone, `pip install", "`pip install")
    return re.sub(r'pip install ("?)\.(?=[\[`])', r"pip install \1wirecodec", text)


def unescape_bars(html: str) -> str:
    r"""Replace `\|` by `|` in the code of table cells, as code hosts do."""
    return re.sub(r"<td.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html, flags=re.DOTALL)


def missing_names(anchors: Iterable[str], root: Path = ROOT) -> list[str]:
    """Return the public names without an entry among the anchors of the API reference."""
    present = set(anchors)
    return [name for page in api_pages(root) for name in page.names if name not in present]


def _page_of(module: str, package: str) -> str:
    return module if module in API_PAGES else package


def _implementations(module: str, root: Path) -> Iterator[str]:
    """Yield the public names of a stage's package that are not its interfaces, which `base` defines."""
    package = module.partition(".")[0]
    if (root.joinpath(*module.split(".")) / "base.py").exists():
        for name, source in public_names(module, root).items():
            if not source.endswith(".base"):
                yield f"{package}.{name}"


def _functions_first(name: str) -> tuple[bool, str]:
    last = name.rpartition(".")[2]
    return not last.islower(), last.lower()


def _tree(paths: Iterable[str]) -> list[object]:
    """Group the format's pages by folder: {"index": [...]}; all others stay in one list."""
    menu: list[object] = []
    folders: dict[str, list[object]] = {}
    for path in paths:
        folder = re.fullmatch(r"formats/spec/(\w+)/.*", path)
        if not folder:
            menu.append(path)
        elif folder[1] in folders:
            folders[folder[1]].append(path)
        else:
            folders[folder[1]] = [path]
            menu.append({_FOLDERS.get(folder[1], folder[1]): folders[folder[1]]})
    return menu
