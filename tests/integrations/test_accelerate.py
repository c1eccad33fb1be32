"""The guide's script under Accelerate: bits of ranks and of resumed runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integrations.pages import read_script, run_on_two_ranks

pytest.importorskip("accelerate", reason="accelerate is not installed")
SCRIPT = read_script("lightning-accelerate.md", "train_accelerate.py")


def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(tmp_path: Path) -> None:
    first, other = run_on_two_ranks(SCRIPT, tmp_path, "2")
    assert first == other
    assert first[0] == 8
    resumed = run_on_two_ranks(SCRIPT, tmp_path, "2", "last")
    whole = run_on_two_ranks(SCRIPT, tmp_path, "4")
    assert resumed == whole
    assert whole[0] == whole[1]
    assert whole[0][0] == 16


def test_a_compressor_itself_is_refused_on_another_rank(tmp_path: Path) -> None:
    """Accelerate gives the state of rank 0 to all ranks."""
    script = SCRIPT.replace("co.Checkpointable(compressor, comm, gather=True)", "compressor")
    assert script != SCRIPT
    run_on_two_ranks(script, tmp_path, "1")
    with pytest.raises(AssertionError, match="was saved by rank 0, and this is rank 1"):
        run_on_two_ranks(script, tmp_path, "1", "last")
