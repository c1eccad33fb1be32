"""Build the package. The settings are in pyproject.toml.

Computed here: the package's description, and the kernels of a wheel. WIRECODEC_BUILD_SECONDS limits the time
for kernels (50 s by default, and some for writing); with 0 there are none, and the wheel is for all machines.
WIRECODEC_BUILD_MACHINE names the machines of the wheel, if they are not of this one's kind: aarch64.
"""

import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # a build does not look for modules beside this file

from docs import pages  # noqa: E402

KERNELS = "wirecodec/kernels/built"
MACHINE = os.environ.get("WIRECODEC_BUILD_MACHINE", platform.machine())


class BuildModules(build_py):
    """Copy of the modules, with compiled kernels if Numba and the other dependencies are installed."""

    def run(self) -> None:
        """Copy the modules, and build the kernels."""
        super().run()
        folder = Path(self.build_lib, KERNELS).resolve()
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier build
        seconds = float(os.environ.get("WIRECODEC_BUILD_SECONDS", "50"))
        if self.editable_mode or seconds <= 0:
            return
        print(f"wirecodec: building kernels, for at most {seconds:.0f} s", flush=True)
        start = time.monotonic()
        path = os.pathsep.join([str(Path(self.build_lib).resolve()), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, ROOT / "wheels" / "kernels.py", "build", folder, str(seconds), MACHINE],
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            print(f"wirecodec: built kernels in {time.monotonic() - start:.0f} s", flush=True)
        else:
            reason = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
            print(f"wirecodec: no kernels are built; they are compiled when they are first used ({reason})")


class BuildWheel(bdist_wheel):
    """Wheel for one version of Python and one kind of machine, if it has kernels."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of Python, its binary interface, and the machine."""
        if not Path(self.get_finalized_command("build").build_lib, KERNELS).exists():
            return super().get_tag()
        self.root_is_pure = False
        try:
            python, interface, machine = super().get_tag()
        finally:
            self.root_is_pure = True
        # Kernels are no libraries: Numba loads them, and no version of the system's libraries is asked for.
        machine = machine.replace(platform.machine(), MACHINE)
        return python, interface, machine.replace("linux_", "manylinux_2_17_")


setup(
    long_description=pages.package_description((ROOT / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
    cmdclass={"build_py": BuildModules, "bdist_wheel": BuildWheel},
)
