"""Tests of the guide's lines: Flower's apps in this process, and NVFlare's filters in its simulator."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guides/federated.md"
FILE = re.compile(r"^```python title=\"(\w+\.py)\"\n(.*?)^```$", re.MULTILINE | re.DOTALL)

CLIENT = """
import numpy as np
import nvflare.client as flare

flare.init()
site = flare.get_site_name()
while flare.is_running():
    model = flare.receive()
    value = {"site-1": 1.0, "site-2": 3.0, "site-3": 9.0}[site]
    diff = {name: np.full(x.shape, value, np.float32) for name, x in model.params.items()}
    meta = {"NUM_STEPS_CURRENT_ROUND": {"site-1": 10, "site-2": 30, "site-3": 5}[site]}
    flare.send(flare.FLModel(flare.ParamsType.DIFF, params=diff, meta=meta))
"""

BREAKING = """
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.dxo_filter import DXOFilter


class Breaking(DXOFilter):
    def __init__(self):
        super().__init__([DataKind.WEIGHT_DIFF], [DataKind.WEIGHT_DIFF])

    def process_dxo(self, dxo, shareable, fl_ctx):
        if fl_ctx.get_identity_name() != "site-3":
            return None
        return DXO(dxo.data_kind, {"wirecodec.update": b"hostile" * 9}, dxo.meta)
"""

BREAK = "import breaking; recipe.add_client_output_filter(breaking.Breaking(), tasks=['train'])"


def files_of_the_guide() -> dict[str, str]:
    return dict(FILE.findall(GUIDE.read_text(encoding="utf-8")))


def test_lines_of_flower(capsys: pytest.CaptureFixture[str]) -> None:
    """The guide's script without Ray; the third client is hostile, and the loss falls in each round."""
    pytest.importorskip("flwr", reason="flwr is not installed")
    from flwr.app import Context, RecordDict

    from tests.integrations.flower_run import Client, LocalGrid, start_task

    start_task()
    names: dict[str, Any] = {"__name__": "fedavg"}
    exec(compile(files_of_the_guide()["fedavg.py"], "fedavg.py", "exec", dont_inherit=True), names)
    clients = []
    for node in (1, 2, 3):
        client = Client(node, lambda arrays, _: (arrays, 1))
        client.app = names["client"]
        clients.append(client)

    def change(reply: Any) -> Any:
        if reply.metadata.src_node_id == 3:
            reply.content["arrays"]["wirecodec.update"].data = b"hostile"
        return reply

    context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})
    names["server"](LocalGrid(clients, change), context)
    lines = capsys.readouterr().out.splitlines()
    found = [re.fullmatch(r"round (\d+): loss (\S+), (\d+) bytes received", line) for line in lines[:10]]
    rounds = [(int(one[1]), float(one[2]), int(one[3])) for one in found if one]
    assert [number for number, _, _ in rounds] == list(range(1, 11))
    losses = [loss for _, loss, _ in rounds]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.1 * losses[0]
    assert sum(received for _, _, received in rounds) == sum(one.bytes_sent for one in clients[:2]) + 10 * 7
    assert max(received for _, _, received in rounds) < 2 * 64 * 8 * 4 / 5
    assert [line.partition(": dropped")[0] for line in lines[10:]] == [f"round {n}" for n in range(1, 11)]
    assert all("client 3: prefix" in line for line in lines[10:])


def test_lines_of_nvflare(tmp_path: Path) -> None:
    """Two sites send a fifth of their differences per round; the third sends no container, and is refused."""
    pytest.importorskip("nvflare", reason="nvflare is not installed")
    job = files_of_the_guide()["job.py"].partition("\nmodel = ")[0]
    changes = ("run = ", f"{BREAK}\nrun = "), ("zeros((64, 8))", "zeros((20, 10))"), ("rounds=10", "rounds=2")
    for old, new in changes:
        assert job.count(old) == 1
        job = job.replace(old, new)
    files = {"client.py": CLIENT, "breaking.py": BREAKING, "job.py": job}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "job.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    log = done.stdout + done.stderr
    assert done.returncode == 0, log[-5000:]
    assert log.count("dropped the update of client site-3: magic") >= 2, log[-5000:]
    model = np.load(tmp_path / "workspace/fedavg/server/simulate_job/models/server.npy")
    assert model.shape == (20, 10)
    # Each round carries 40 elements of each site: in the second round, those with a residual of the first.
    np.testing.assert_allclose(model.reshape(-1), [2.5] * 40 + [5.0] * 40 + [0.0] * 120, rtol=1e-6)
