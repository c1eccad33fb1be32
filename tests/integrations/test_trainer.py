"""The guide's script under the Trainer of transformers: a run that was cut, and a GradScaler."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integrations.pages import change, read_script, run_on_two_ranks

pytest.importorskip("transformers", reason="transformers is not installed")
SCRIPT = read_script("lightning-accelerate.md", "train_trainer.py")


def test_a_cut_run_that_is_resumed_has_the_bits_of_an_uninterrupted_one(tmp_path: Path) -> None:
    """A callback that restores nothing gives other bits, so the comparison can fail."""
    on_step = (
        "    def on_step_begin(self, args, state, control, **others):\n        if state.global_step == 7:\n"
    )
    cut = change(SCRIPT, ("    def on_save", f"{on_step}            os._exit(3)\n\n    def on_save"))
    with pytest.raises(AssertionError, match=r"exitcode *: 3"):
        run_on_two_ranks("import os\n" + cut, tmp_path)
    assert [path.name for path in (tmp_path / "output").iterdir()] == ["checkpoint-5"]
    resumed = run_on_two_ranks(SCRIPT, tmp_path, "output/checkpoint-5")
    restore = "self.entry.load_state_dict(torch.load(self.path(self.checkpoint), weights_only=True))"
    lost = run_on_two_ranks(change(SCRIPT, (restore, "pass")), tmp_path, "output/checkpoint-5")
    whole = run_on_two_ranks(SCRIPT, tmp_path)
    assert resumed == whole
    assert whole[0] == whole[1]
    assert whole[0][0] == 12
    assert lost[0][0] == 7
    assert lost[0][1] != whole[0][1]


def test_a_resumed_run_needs_the_residuals(tmp_path: Path) -> None:
    """The Trainer does not tell the callback where its checkpoint is; nothing may be lost in silence."""
    run_on_two_ranks(SCRIPT, tmp_path)
    forgetful = change(
        SCRIPT, ("Compression(trainer, compressor, checkpoint)", "Compression(trainer, compressor)")
    )
    with pytest.raises(AssertionError, match="TypeError"):
        run_on_two_ranks(forgetful, tmp_path, "output/checkpoint-5")
    for path in (tmp_path / "output/checkpoint-5").glob("wirecodec_*.pt"):
        path.unlink()
    with pytest.raises(AssertionError, match=r"FileNotFoundError.*wirecodec_"):
        run_on_two_ranks(SCRIPT, tmp_path, "output/checkpoint-5")


def test_a_scaler_changes_no_bit(tmp_path: Path) -> None:
    """Its scale is a power of two; the residuals are in the gradients' unit while it grows.

    The Trainer has no scaler on CPUs. Clipping is off, because Accelerate unscales gradients under fp16 only.
    """
    unused = ("ddp_find_unused_parameters=False", "max_grad_norm=0")
    plain = change(SCRIPT, unused)
    scaled = change(
        plain,
        (
            "    trainer.remove_callback",
            '    trainer.accelerator.scaler = torch.amp.GradScaler("cpu", growth_interval=4)\n'
            "    trainer.remove_callback",
        ),
        ("    bits =", "    assert trainer.accelerator.scaler.get_scale() == 2.0**19\n    bits ="),
    )
    expected = run_on_two_ranks(plain, tmp_path)
    assert run_on_two_ranks(scaled, tmp_path) == expected
    assert expected[0][0] == 12
    unaware = change(scaled, (", scaler=scaler)", ")"))
    assert run_on_two_ranks(unaware, tmp_path) != expected


def test_a_second_call_of_train_keeps_the_hook(tmp_path: Path) -> None:
    """DDP looks for unused parameters here, as it does by default under the Trainer."""
    train = "    trainer.train(resume_from_checkpoint=checkpoint)\n"
    twice = change(
        SCRIPT,
        (train, f"{train}    trainer.train()\n"),
        ("            ddp_find_unused_parameters=False,\n", ""),
    )
    first, other = run_on_two_ranks(twice, tmp_path)
    assert first == other
    assert first[0] == 24
