"""Build the package. The settings are in pyproject.toml; only the package's description is computed here."""

import sys
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # a build does not look for modules beside this file

from docs import pages  # noqa: E402

README = (ROOT / "README.md").read_text(encoding="utf-8")
setup(
    long_description=pages.package_description(README),
    long_description_content_type="text/markdown",
)
