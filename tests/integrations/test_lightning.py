"""The guide's script under Lightning: equal bits, unused parameters, the strategy's hook, forks, signals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.pages import ROOT, change, read_script, run_on_two_ranks

pytest.importorskip("lightning", reason="lightning is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")
SCRIPT = read_script("lightning-accelerate.md", "train_lightning.py")
RECORDING = """
class Recording(wc.Compressor):
    bits = ()

    def prepare(self, *arguments, **options):
        prepared = super().prepare(*arguments, **options)
        self.bits += (8 * prepared.blob.nbytes / 33_793,)
        return prepared
"""
CHECKS = """
    loss = torch.nn.functional.mse_loss(model.layers(inputs), data.tensors[1])
    assert loss < 1, loss  # 64 at first; dense training has 0.3 after ten epochs
    assert len(compressor.bits) == 40
    assert all(0.2 < bits <= 0.25 for bits in compressor.bits), compressor.bits
"""


def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(tmp_path: Path) -> None:
    """A callback that restores nothing gives other bits, so the comparison can fail."""
    broken = SCRIPT.replace("        self.entry.load_state_dict(state)", "        pass")
    assert broken != SCRIPT
    first, other = run_on_two_ranks(SCRIPT, tmp_path, "2")
    assert first == other
    assert first[0] == 8
    without_residuals = run_on_two_ranks(broken.replace('"last.ckpt"', '"x"'), tmp_path, "4", "last.ckpt")
    resumed = run_on_two_ranks(SCRIPT, tmp_path, "4", "last.ckpt")
    whole = run_on_two_ranks(SCRIPT, tmp_path, "4")
    assert resumed == whole != without_residuals
    assert whole[0] == whole[1]
    assert whole[0][0] == 16


def test_the_budget_trains_in_its_bits(tmp_path: Path) -> None:
    """Error feedback sends what a step has not: the loss falls as that of dense training does."""
    script = change(
        SCRIPT,
        ("\nclass Compression", f"{RECORDING}\n\nclass Compression"),
        ("wc.Compressor(", "Recording("),
        ("    bits = torch", f"{CHECKS}    bits = torch"),
    )
    first, other = run_on_two_ranks(script, tmp_path, "10")
    assert first == other


def test_unused_parameters(tmp_path: Path) -> None:
    script = SCRIPT.replace('strategy="ddp"', 'strategy="ddp_find_unused_parameters_true"').replace(
        "        super().__init__()\n        self.layers",
        "        super().__init__()\n        self.unused = torch.nn.Linear(3, 3)\n        self.layers",
    )
    assert script.count("unused") == 2
    first, other = run_on_two_ranks(script, tmp_path, "2")
    assert first == other
    assert first[0] == 8


def test_hook_of_the_strategy_is_ignored_on_cpus(tmp_path: Path) -> None:
    """The page says so; if this fails, Lightning has changed, and the page can recommend the strategy."""
    hook = "co.torch_hook(compressor, co.TorchComm(), model.named_parameters())"
    script = SCRIPT.replace('strategy="ddp"', f"strategy=DDPStrategy(ddp_comm_hook={hook})")
    script = script.replace("[Compression(compressor)]", "[]").replace(
        "import torch\n", "import torch\nfrom lightning.pytorch.strategies import DDPStrategy\n", 1
    )
    assert [steps for steps, _ in run_on_two_ranks(script, tmp_path, "1")] == [0, 0]


SAVING = """    def on_train_end(self, trainer, module):
        trainer.save_checkpoint("forked.ckpt")

"""


def test_forked_processes_save_their_residuals_before_they_end(tmp_path: Path) -> None:
    """A checkpoint that the parent saves later has no residuals, as the page says."""
    script = change(
        SCRIPT,
        ('strategy="ddp"', 'strategy="ddp_fork"'),
        ("    def state_dict(self):", f"{SAVING}    def state_dict(self):"),
    )
    (tmp_path / "forking.py").write_text(script, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "forking.py", "2"], cwd=tmp_path, env=env, timeout=240, check=True)
    keys = {}
    for name in ("forked", "last"):
        state = torch.load(tmp_path / f"{name}.ckpt", weights_only=True)
        keys[name] = list(state["callbacks"]["Compression"])
    assert keys == {
        "forked": ["wirecodec rank 0 of 2", "wirecodec rank 1 of 2"],
        "last": ["wirecodec rank 0 of 1"],
    }
    resumed = run_on_two_ranks(SCRIPT, tmp_path, "4", "forked.ckpt")
    assert resumed == run_on_two_ranks(SCRIPT, tmp_path, "4")


SLURM = """
import os
names = {"PROCID": os.environ["RANK"], "LOCALID": os.environ["RANK"], "NODEID": "0", "NTASKS": "2"}
names |= {"NTASKS_PER_NODE": "2", "JOB_ID": "12345", "JOB_NAME": "training", "NODELIST": "127.0.0.1"}
os.environ.update({f"SLURM_{name}": value for name, value in names.items()})
from lightning.pytorch.plugins.environments import SLURMEnvironment
from requeue import SaveOnSignal
"""

SIGNAL = """
import signal
from collectives.channel import Channel

plain, sent = Channel.gather, []

def gather(self, *arguments, **options):
    if os.environ["RANK"] == "1" and compressor.step == STEP and not sent:
        sent.append(os.kill(os.getpid(), signal.KIND))
    return plain(self, *arguments, **options)

Channel.gather = gather
"""


def make_slurm_script(*, auto_requeue: bool, callbacks: str) -> str:
    """Return the guide's script for SLURM; an epoch is one step. STEP and KIND are left to be replaced."""
    return change(
        SCRIPT,
        ("import torch\n", f"{SLURM}import torch\n"),
        ("batch_size=16", "batch_size=128"),
        ("accumulate_grad_batches=2", f"plugins=SLURMEnvironment(auto_requeue={auto_requeue})"),
        ("[Compression(compressor)]", f"[{callbacks}]"),
        ('    trainer.save_checkpoint("last.ckpt")\n', ""),
        ("    trainer = lightning", "    globals()['compressor'] = compressor\n    trainer = lightning"),
        ("main(int(", f"{SIGNAL}\nmain(int("),
    )


@pytest.mark.parametrize(("name", "auto_requeue"), [("SIGUSR1", True), ("SIGTERM", False)])
def test_a_signal_of_slurm_to_one_rank_in_an_exchange(name: str, auto_requeue: bool, tmp_path: Path) -> None:
    """All ranks save after the step, and stop; a resumed run has the bits of one without a signal."""
    (tmp_path / "requeue.py").write_text(read_script("lightning-accelerate.md", "requeue.py"))
    callbacks = "Compression(compressor), SaveOnSignal('signal.ckpt')"
    script = make_slurm_script(auto_requeue=auto_requeue, callbacks=callbacks)
    signalled = change(script, ("STEP", "5"), ("KIND", name))
    script = change(script, ("STEP", "-1"), ("KIND", name))
    stopped = run_on_two_ranks(signalled, tmp_path, "12")
    assert [steps for steps, _ in stopped] == [6, 6]
    assert (tmp_path / "signal.ckpt").exists()
    assert stopped == run_on_two_ranks(script, tmp_path, "6")
    resumed = run_on_two_ranks(script, tmp_path, "12", "signal.ckpt")
    assert resumed == run_on_two_ranks(script, tmp_path, "12")
    assert [steps for steps, _ in resumed] == [12, 12]


def test_lightning_s_own_handler_writes_no_checkpoint(tmp_path: Path) -> None:
    """The page says so; if this fails, Lightning has changed, and the callback is not needed any more."""
    (tmp_path / "requeue.py").write_text(read_script("lightning-accelerate.md", "requeue.py"))
    script = make_slurm_script(auto_requeue=True, callbacks="Compression(compressor)")
    script = change(script, ("STEP", "1"), ("KIND", "SIGUSR1"), ("\nmain(int(", "\ntry:\n    main(int("))
    script += "except co.CollectiveError as error:\n    print('reason', error.reason)\n"
    with pytest.raises(AssertionError, match="reason nested"):  # there is no line of a training that ended
        run_on_two_ranks(script, tmp_path, "4")
    assert not list(tmp_path.glob("*.ckpt"))
