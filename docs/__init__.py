"""The project's site: guides, and the code that gathers the repository's pages for MkDocs (`make docs`)."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The repository."""
