"""Build the module wirecodec_reader from ../reference: all but its writers, under another name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py

NAME = "wirecodec_reader"
FORMATS = Path(__file__).resolve().parents[1]
PARTS = ("", "index", "map", "transform", "value")

if not (FORMATS / "reference").is_dir():
    sys.exit("wirecodec_reader is built inside a clone of wirecodec: pip install ./formats/reader")


class BuildReader(build_py):
    """Copy of the reference's modules with their imports renamed; ``reader`` becomes the module itself."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return (package, module, file) of each module."""
        found: list[Any] = list(super().find_package_modules(package, package_dir))
        if package != NAME:
            return found
        files = {module: file for _, module, file in found if module not in ("__init__", "__main__")}
        files["__init__"] = files.pop("reader")
        files["zstd"] = "../zstd.py"
        return [(package, module, file) for module, file in files.items()]

    def build_module(self, module: str, module_file: str, package: str) -> Any:
        """Write one module."""
        text = Path(module_file).read_text(encoding="utf-8")
        text = text.replace("formats.reference.reader", NAME).replace("formats.reference", NAME)
        target = Path(self.get_module_outfile(self.build_lib, package.split("."), module))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.replace("formats.zstd", f"{NAME}.zstd"), encoding="utf-8")
        (Path(self.build_lib) / NAME / "py.typed").touch()
        return str(target), True


setup(
    packages=[f"{NAME}.{part}".rstrip(".") for part in PARTS],
    package_dir={NAME: "../reference"},
    cmdclass={"build_py": BuildReader},
)
