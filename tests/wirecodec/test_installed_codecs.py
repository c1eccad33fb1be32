"""Codecs that other distributions offer by entry points; pip installs two in a temporary folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from wirecodec import registry

pytest.importorskip("setuptools", minversion="77", reason="setuptools 77 builds the distributions")

X = np.array([0, 3, 0, -1, 0.5], np.float32)
MODULE = """
from dataclasses import dataclass
import numpy as np
import wirecodec as wc


@dataclass(frozen=True)
class Halves:
    name = "halves"
    wire_id = 0x90
    carries_nonfinite = False

    def encode(self, values, stream):
        return values.astype(np.float16).view(np.uint8)

    @classmethod
    def decode(cls, section, r, dtype, limits):
        if section.size != 2 * r:
            raise wc.Malformed("halves-length", "length")
        return section.view(np.float16).astype(dtype)


@wc.register
@dataclass(frozen=True)
class Every:
    name = "every"
    n: int = 2

    def select(self, x, *, gradient=None, state=None, seed=0):
        return wc.Selection(np.arange(0, x.size, self.n))


class Taken(Halves):
    name = "taken"
    wire_id = 1
"""
OFFERED = {
    "acme-codecs": {
        "halves": "acme_codecs:Halves",
        "every": "acme_codecs:Every",
        "twice": "acme_codecs:Halves",
        "broken": "acme_codecs.broken:Halves",
        "absent": "acme_codecs.none:Halves",
        "missing": "acme_codecs:Missing",
        "misnamed": "acme_codecs:Halves",
        "instance": "acme_codecs.instance:halves",
        "taken": "acme_codecs:Taken",
    },
    "other-codecs": {"twice": "acme_codecs:Halves"},
}
FAULTS = {
    "broken": "update or uninstall it: ZeroDivisionError: division by zero",
    "absent": "ModuleNotFoundError: No module named 'acme_codecs.none'",
    "missing": "AttributeError: module 'acme_codecs' has no attribute 'Missing'",
    "misnamed": "is <class 'acme_codecs.Halves'>; it must be a class whose name is 'misnamed'",
    "instance": "acme_codecs.instance:halves is Halves(); it must be a class whose name is 'instance'",
    "taken": "Taken: wire_id is 1; it must be 0x80 to 0xFF",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which pip has installed the distributions."""
    folder = tmp_path_factory.mktemp("installed")
    for name, entries in OFFERED.items():
        (folder / name).mkdir()
        package = name.replace("-", "_")
        lines = [f'[project]\nname = "{name}"\nversion = "2.5"', f'[project.entry-points."{registry.GROUP}"]']
        lines += [f'{entry} = "{value}"' for entry, value in entries.items()]
        lines += [f'[tool.setuptools]\npackages = ["{package}"]']
        (folder / name / "pyproject.toml").write_text("\n".join(lines))
        (folder / name / package).mkdir()
        (folder / name / package / "__init__.py").write_text(MODULE if name == "acme-codecs" else "")
    (folder / "acme-codecs/acme_codecs/broken.py").write_text("1 / 0")
    (folder / "acme-codecs/acme_codecs/instance.py").write_text(
        "from acme_codecs import Halves\nhalves = Halves()"
    )
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *options,
        "--target",
        "site",
        *map("./{}".format, OFFERED),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture
def installed(site: Path, own_registry: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(site)
    return site


@pytest.mark.usefixtures("installed")
def test_a_scheme_names_an_installed_codec() -> None:
    assert "halves" not in registry.stages()["value codec"]
    blob = wc.encode(X, "every(3) | rice | halves")
    found = wc.decode(blob)
    assert (found.indices.tolist(), found.values.tolist()) == ([0, 3], [0, -1])
    assert str(wc.Scheme.parse("every(3)|rice|halves")) == "every(n=3) | rice | halves"
    assert wc.preset("dgc(value=halves)").value.name == "halves"


def test_reading_without_the_class_is_the_usual_refusal(installed: Path) -> None:
    """Bytes of a stranger import nothing."""
    program = (
        "import sys, wirecodec as wc\n"
        "try: wc.decode(sys.stdin.buffer.read())\n"
        "except wc.Unsupported as error: print(error.code, 'acme_codecs' in sys.modules)\n"
        "wc.Scheme.parse('all | rice | halves')\n"
        "print('acme_codecs' in sys.modules)\n"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=wc.encode(X, "all | rice | halves").tobytes(),
        env={"PYTHONPATH": f"{root}:{installed}", "WIRECODEC_QUIET": "1", "PATH": ""},
        capture_output=True,
        check=False,
        timeout=200,
    )
    assert done.stdout.decode().split() == ["value-codec", "False", "True"], done.stderr.decode()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_one_names_its_distribution(name: str) -> None:
    for _ in range(2):
        with pytest.raises(wc.EncodeError) as caught:
            wc.encode(X, f"all | rice | {name}")
        assert f"{name!r} of the distribution acme-codecs 2.5 cannot be used; " in caught.value.reason
        assert caught.value.reason.endswith(FAULTS[name])
    assert not registry.stages_of(name)


@pytest.mark.usefixtures("installed")
def test_a_name_that_two_offer_is_an_error() -> None:
    with pytest.raises(
        wc.EncodeError, match=r"acme-codecs 2\.5 and other-codecs 2\.5; uninstall all but one"
    ):
        wc.encode(X, "all | rice | twice")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("stage", ["selector", "index codec", "transform"])
def test_a_codec_of_another_stage_is_unknown_here(stage: str) -> None:
    with pytest.raises(wc.EncodeError, match=f"^unknown {stage} 'halves'"):
        registry.named(stage, "halves")


def test_the_first_of_equal_distributions_counts(
    installed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python imports from the first folder of the path, too."""
    newer = tmp_path / "Acme_Codecs-3.0.dist-info"
    newer.mkdir()
    (newer / "METADATA").write_text("Name: Acme_Codecs\nVersion: 3.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(wc.EncodeError, match=r"^unknown value codec 'halves'"):
        registry.named("value codec", "halves")
    (newer / "entry_points.txt").write_text(f"[{registry.GROUP}]\nhalves = acme_codecs:Halves\n")
    assert registry.named("value codec", "halves").__name__ == "Halves"


@pytest.mark.parametrize("text", ["halves", "halves\nbroken = a:b"])
def test_a_damaged_list_names_its_distribution(
    text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "odd-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: odd\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{text}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(wc.EncodeError, match=r"entry_points\.txt of the distribution odd is damaged"):
        registry.named("selector", "halves")


def test_known_names_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise AssertionError(name)

    monkeypatch.setattr(registry, "_find_offers", fail)
    wc.encode(X, "topk(0.5) | rice | raw")
    with pytest.raises(wc.EncodeError, match="'topk'"):
        wc.encode(X, "topk")
    with pytest.raises(AssertionError, match="rise"):
        wc.encode(X, "topk(0.5) | rise | raw")
