"""MkDocs hooks: add the repository's pages and an API reference with an entry per public name."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # MkDocs loads this file by its path
from docs import ROOT, pages, reference

_anchors: set[str] = set()


def on_config(config: Any) -> Any:
    """Set the menu."""
    _anchors.clear()
    config.nav = pages.navigation()
    return config


def on_files(files: Any, config: Any) -> Any:
    """Replace the files of docs_dir by the repository's pages, under their paths in the repository."""
    gathered = Files([file for file in files if file.generated_by or file.src_dir != config.docs_dir])
    paths = [path for section in pages.find_pages().values() for path in section] + pages.find_assets()
    for path in paths:
        gathered.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for page in reference.api_pages():
        gathered.append(File.generated(config, page.path, content=page.markdown()))
    return gathered


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Point links to other files of the repository at the project's home, and names to their entries."""
    if page.file.src_uri == reference.API_START:
        markdown = reference.link_names(markdown)
    return pages.repository_links(
        markdown, page.file.src_uri, lambda path: files.get_file_from_path(path) is not None
    )


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Collect the anchors of the API reference, and unescape bars in tables."""
    if page.file.src_uri.startswith("api/"):
        _anchors.update(re.findall(r'\bid="([\w.]+)"', html))
    return pages.unescape_bars(html)


def on_post_build(config: Any) -> None:
    """Fail if a public name has no entry."""
    missing = reference.missing_names(_anchors)
    if missing:
        raise PluginError(f"public names without an entry in the API reference: {', '.join(missing)}")
