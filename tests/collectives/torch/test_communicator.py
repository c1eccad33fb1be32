"""TorchComm before there is a group, over groups that are replaced, and over groups of their own."""

from __future__ import annotations

import pytest

from tests.collectives.torch.processes import run

pytest.importorskip("torch")

EARLY = """
dist.destroy_process_group()
early, by_function = co.TorchComm(), co.TorchComm(lambda: dist.group.WORLD)
found = [early.is_ready, repr(early)]
for call in (lambda: early.rank, lambda: co.allreduce(early, np.ones(4, "f4"), "topk(0.5) | rice | raw")):
    try:
        call()
    except ValueError as error:
        found.append(str(error))
model = torch.nn.Linear(8, 4)
with torch.no_grad():
    for p in model.parameters(): p.fill_(.5)
compressor = wc.Compressor("topk(0.5) | rice | raw")
hook = co.torch_hook(compressor, early, model.named_parameters(), overlap=OVERLAP)
w = np.zeros(4, "f4")
local = co.LocalUpdates(None, {"w": w}, wc.Compressor("all | raw-index | raw"), by_function, every=1)
os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
sums = []
for turn in range(2):  # the second one replaces the group
    dist.init_process_group("gloo", rank=rank, world_size=size)
    ddp = DDP(model)
    ddp.register_comm_hook(None, hook)
    for step in range(3):
        model.zero_grad()
        ddp(torch.full((2, 8), 1.0 + rank)).sum().backward()
        sums.append([float(p.grad.double().sum()) for p in model.parameters()])
    w += rank
    local.step()
    channels = co.Channel.of(early), co.Channel.of(by_function)
    sums.append([float(w.sum()), float(early.size), channels[0] is not channels[1]])
    del ddp
    if turn == 0:
        dist.destroy_process_group()
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
print(json.dumps([found, sums, compressor.step]))
"""


@pytest.mark.parametrize("overlap", [False, True])
def test_made_before_the_group_and_used_with_two(overlap: bool) -> None:
    first, second = run(2, EARLY.replace("OVERLAP", str(overlap)))
    found, sums, step = first
    assert found[:2] == [False, "<TorchComm without a group yet>"]
    assert len(found) == 4
    assert all("init_process_group" in text for text in found[2:])
    assert sums == second[1]
    assert step == 6
    assert [sums[3][0], sums[7][0]] == [2.0, 4.0]


RAW = """
dist.destroy_process_group()
from datetime import timedelta
port = int(os.environ["MASTER_PORT"]) + 1
store = dist.TCPStore("127.0.0.1", port, size, is_master=rank == 0, timeout=timedelta(seconds=30))

def make(name):
    prefix = dist.PrefixStore(name, store)
    group = dist.ProcessGroup(prefix, rank, size)
    backend = dist.ProcessGroupGloo(prefix, rank, size, timedelta(seconds=20))
    group._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, backend)
    return group

groups = [make("one"), make("two")]
comm = co.TorchComm(lambda: groups[0])
compressor = wc.Compressor("topk(0.25) | rice | raw")
grad = {"w": np.arange(40, dtype="f4") * (rank + 1)}
results = [float(co.allreduce(comm, grad, compressor)["w"].sum())]
first = co.Channel.of(comm)
del groups[0]
results.append(float(co.allreduce(comm, grad, compressor, algorithm="split-pairs")["w"].sum()))
try:
    co.TorchComm(dist.ProcessGroup(dist.PrefixStore("none", store), rank, size))
except ValueError as error:
    results.append(str(error).startswith("the process group has no backend for the CPU"))
alone = co.TorchComm(groups[0])
results.append(float(co.allreduce(alone, grad, compressor)["w"].sum()))
print(json.dumps([results, first is not co.Channel.of(comm), first.sequence, compressor.step, first.timeout]))
store.set(f"done {rank}", "")
store.wait([f"done {other}" for other in range(size)])
dist.destroy_process_group = lambda: None
"""


def test_groups_without_torch_distributed_that_are_replaced() -> None:
    first, second = run(2, RAW)
    assert first == second
    assert first[1:] == [True, 1, 3, 18]


OUTSIDE = """
inside = dist.new_group([0])
text = ""
if rank == 1:
    for group in (inside, lambda: inside):
        try:
            co.TorchComm(group).rank
        except ValueError as error:
            text += str(error)
print(json.dumps(text))
"""


def test_a_rank_outside_of_the_group() -> None:
    assert run(2, OUTSIDE)[1].count("this process is not in the group") == 2
