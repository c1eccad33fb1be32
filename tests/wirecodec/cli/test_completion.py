"""Completion scripts, and how bash uses them."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from wirecodec.cli import main
from wirecodec.cli.completion import SHELLS


def complete(script: str, *words: str) -> list[str]:
    """Return what bash offers for the last word."""
    line = " ".join(words)
    code = (
        f"{script}\nCOMP_WORDS=({line} '')\nCOMP_CWORD={len(words)}\nCOMP_LINE='{line} '\n"
        "_shtab_wirecodec\nprintf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", "bash"])
    assert ended.value.code in (None, 0)
    script = capsys.readouterr().out
    assert {"encode", "decode", "stats", "warm"} <= set(complete(script, "wirecodec"))
    for position in ("diff_pos_0", "diff_pos_1", "apply_pos_0", "apply_pos_1", "verify_pos_0"):
        assert f"_shtab_wirecodec_{position}_COMPGEN=_shtab_compgen_files" in script


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    shtab = pytest.importorskip("shtab")
    if shell not in shtab.SUPPORTED_SHELLS:
        pytest.skip(f"this shtab has no {shell}")
    with pytest.raises(SystemExit):
        main(["--print-completion", shell])
    assert "encode" in capsys.readouterr().out


def test_without_shtab_the_message_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "bash"]) == 2
    assert capsys.readouterr().err == "wirecodec: shell completion needs shtab: pip install shtab\n"
