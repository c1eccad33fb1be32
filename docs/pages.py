"""Pages of the site: the files of the repository, and their order.

Every page keeps its path in the repository, so a relative link that works on a code host works on the site.
This module reads files only; `docs.hooks` hands its results to MkDocs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from docs import ROOT
from docs.reference import API_START, api_pages

HOME = "https://github.com/wirecodec/wirecodec"
"""The project's home. Links to files that are not pages of the site lead there."""

GUIDES = (
    *("where", "compress", "train", "settings", "checkpoints", "production", "errors", "momentum"),
    *("local-updates", "local-updates-methods", "local-updates-overlap", "local-updates-failures"),
    *("federated", "store", "weights", "frameworks", "lightning-accelerate", "mpi-torch", "recipes"),
    *("comparison", "questions", "*", "codec"),
)
"""The guides in the order in which readers need them; `*` is the place of all others."""

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Home": ("README.md",),
    "Guides": (
        *(f"docs/guides/{name}.md" for name in GUIDES),
        "wirecodec/**/README.md",
        "collectives/**/README.md",
    ),
    "API": ("docs/api.md",),
    "Format": ("formats/README.md", "formats/SPEC.md", "formats/**/*.md"),
    "Results": ("benchmarks/README.md", "benchmarks/**/*.md"),
    "Project": ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
}
"""The site's tabs: file patterns, in order. A file goes to the first pattern that names it, or matches it."""

_FOLDERS = {"index": "Index codecs", "value": "Value codecs", "map": "Maps", "transform": "Transforms"}

ASSETS = ("benchmarks/**/*.png", "docs/assets/*")

_LINK = re.compile(r"(\]\(<?|^\[[^\]]+\]: +)([^)>\s]+)", re.MULTILINE)


def find_pages(root: Path = ROOT) -> dict[str, list[str]]:
    """Find the repository's pages.

    Args:
        root: the repository.

    Returns:
        Paths relative to root, per section of `SECTIONS`.
    """
    seen: set[str] = set()
    named = {pattern for patterns in SECTIONS.values() for pattern in patterns if "*" not in pattern}
    pages: dict[str, list[str]] = {}
    for section, patterns in SECTIONS.items():
        pages[section] = []
        for pattern in patterns:
            found = sorted(p.relative_to(root).as_posix() for p in root.glob(pattern))
            new = [path for path in found if path not in seen and (path not in named or path == pattern)]
            pages[section] += new
            seen.update(new)
    return pages


def find_assets(root: Path = ROOT) -> list[str]:
    """Find the pictures and other files that pages show, as paths relative to root."""
    return sorted(p.relative_to(root).as_posix() for pattern in ASSETS for p in root.glob(pattern))


def navigation(root: Path = ROOT) -> list[dict[str, object]]:
    """Return the site's menu in the form that MkDocs takes: sections of page paths."""
    menu: list[dict[str, object]] = []
    for section, paths in find_pages(root).items():
        entries = _tree(paths)
        if section == "API":
            entries = [{"Start here": API_START}, *({page.title: page.path} for page in api_pages(root))]
        menu.append({section: paths[0] if section == "Home" else entries})
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
