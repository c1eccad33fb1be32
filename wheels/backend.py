"""Build backend: setuptools', which also asks for the package's dependencies if a wheel gets kernels."""

import os
import sys
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return what a build needs beside setuptools: Numba and what the kernels import."""
    needed = build_meta.get_requires_for_build_wheel(config_settings)
    if float(os.environ.get("WIRECODEC_BUILD_SECONDS", "50")) <= 0:
        return needed
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    return [*needed, *settings["project"]["dependencies"]]
