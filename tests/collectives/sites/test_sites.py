"""Sums over sites: two sites of two MPI ranks each, against sums by NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import collectives as co
import wirecodec as wc

pytestmark = pytest.mark.mpi(4)

DENSE = "all | raw-index | raw"
TOPK = "topk(0.1) | rice | raw"


def world() -> Any:
    from mpi4py import MPI

    return MPI.COMM_WORLD


def make_sites() -> co.Sites:
    comm = world().Dup()
    return co.Sites(comm.Split(comm.rank // 2, comm.rank), comm.Split(comm.rank % 2, comm.rank))


def grads_of(rank: int, step: int = 0, dtype: Any = np.float32) -> dict[str, Any]:
    rng = np.random.default_rng((rank, step))
    shapes = {"a": (30, 7), "b": (1,), "c": (100,), "d": (2, 3)}
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


def same_everywhere(value: bytes) -> bool:
    return len(set(world().allgather(value))) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", ["mean", "sum"])
def test_dense_sums(dtype: Any, op: Any) -> None:
    """In rank order within a site, rounded, and then in the order of the sites."""
    sites = make_sites()
    wide = np.float64 if dtype is np.float64 else np.float32
    given = grads_of(sites.rank, dtype=dtype)
    results = co.allreduce(sites, given, DENSE, op=op)
    for name, result in results.items():
        total = np.zeros(given[name].shape, wide)
        for site in range(2):
            within = np.zeros(given[name].shape, wide)
            for rank in range(2):
                within += grads_of(2 * site + rank, dtype=dtype)[name].astype(wide)
            total += (within / wide(2 if op == "mean" else 1)).astype(dtype).astype(wide)
        expected = (total / wide(2 if op == "mean" else 1)).astype(dtype)
        assert result.tobytes() == expected.tobytes()
        assert result.shape == given[name].shape


def test_nothing_is_lost() -> None:
    """What was sent plus what is kept, of the ranges of all ranks, equals the sites' means."""
    sites, compressor = make_sites(), wc.Compressor(TOPK)
    moved = {name: np.zeros(x.shape) for name, x in grads_of(0).items()}
    for step in range(6):
        means = co.allreduce(sites, grads_of(sites.rank, step), compressor)
        assert same_everywhere(b"".join(x.tobytes() for x in means.values()))
        for name, mean in means.items():
            moved[name] += mean
    kept = world().allgather({name: x for name in moved if (x := compressor.residual(name)) is not None})
    for name, total in moved.items():
        came = sum(
            grads_of(rank, step)[name].astype(np.float64) for rank in range(4) for step in range(6)
        ).ravel()
        sizes = [kept[rank][name].size for rank in range(2) if name in kept[rank]]
        assert sum(sizes) in (came.size, 0)
        left = [
            np.concatenate([k[name] for k in kept[2 * s : 2 * s + 2] if name in k] or [0.0]) for s in (0, 1)
        ]
        np.testing.assert_allclose(4 * total.ravel() + 2 * (left[0] + left[1]), came, atol=1e-5)


def test_the_bytes_between_sites_are_those_of_one_rank() -> None:
    flat, sites = world().Dup(), make_sites()
    grad = {"w": np.random.default_rng(flat.rank).normal(size=200_000).astype(np.float32)}
    scheme = "topk(0.01) | rice | raw"
    co.allreduce(flat, grad, wc.Compressor(scheme), algorithm="allgather")
    co.allreduce(sites, grad, wc.Compressor(scheme), algorithm="allgather")
    across = sum(world().allgather(sites.across.bytes_sent)[:2])
    whole = co.Channel.of(flat).bytes_sent
    assert (
        across < 1.2 * whole * 2 / 3
    )  # a ring of 4 sends 3 containers over each link, one rank here sends 1


def test_weights() -> None:
    sites = make_sites()
    weight = [1.0, 3.0, 0.0, 0.0][sites.rank]
    grad = np.full(8, [2.0, 6.0, np.nan, np.nan][sites.rank], np.float32)
    assert co.allreduce(sites, {"w": grad}, DENSE, weight=weight)["w"].tolist() == [5.0] * 8
    compressor = wc.Compressor(TOPK)
    co.allreduce(sites, {"w": grad}, compressor, weight=weight)
    assert compressor.step == 1


def test_memory_of_the_caller_and_single_tensors() -> None:
    sites = make_sites()
    grads = grads_of(sites.rank)
    expected = co.allreduce(sites, grads, TOPK)
    results = co.allreduce(sites, grads, TOPK, out=grads)
    assert all(results[name] is grads[name] for name in grads)
    assert all(results[name].tobytes() == expected[name].tobytes() for name in grads)
    bare = co.allreduce(sites, np.arange(3, dtype=np.float32) * sites.rank, DENSE)
    assert bare.tolist() == [0, 1.5, 3]
    tiny = co.allreduce(
        sites, np.array([sites.rank], np.float32), wc.Compressor(DENSE)
    )  # fewer elements than ranks
    assert tiny.tolist() == [1.5]


def test_clt_k() -> None:
    sites, cltk = make_sites(), co.CLTk(0.25)
    total = np.zeros(64)
    for step in range(4):
        grad = np.random.default_rng((sites.rank, step)).normal(size=64).astype(np.float32)
        mean = cltk.allreduce(sites, {"w": grad})["w"]
        assert same_everywhere(mean.tobytes())
        assert 16 <= np.count_nonzero(mean) <= 18
        total += mean
    kept = world().allgather(cltk.residual("w"))
    came = sum(
        np.random.default_rng((r, step)).normal(size=64).astype(np.float32)
        for r in range(4)
        for step in range(4)
    )
    left = np.concatenate(kept[:2]) + np.concatenate(kept[2:])
    np.testing.assert_allclose(4 * total + 2 * left, came, atol=1e-5)


def check_error(call: Any, match: str | None, state: Any) -> None:
    """Check that all ranks raise, that nothing changed, and that the next exchange works."""
    before = {key: x.tobytes() for key, x in state.state_dict().items()}
    with pytest.raises(co.CollectiveError, match=match):
        call()
    assert {key: x.tobytes() for key, x in state.state_dict().items()} == before


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("nonfinite", ["raise", "propagate"])
def test_nan_on_one_rank(rank: int, nonfinite: Any) -> None:
    sites, compressor = make_sites(), wc.Compressor(TOPK)
    co.allreduce(sites, grads_of(sites.rank), compressor)
    bad = grads_of(sites.rank, 1)
    if sites.rank == rank:
        bad["c"][99] = np.nan

    def call() -> Any:
        return co.allreduce(sites, bad, compressor, nonfinite=nonfinite)

    if nonfinite == "raise":
        check_error(call, "cannot carry nan", compressor)
    else:
        before = {key: x.tobytes() for key, x in compressor.state_dict().items()}
        assert all(np.isnan(x).all() for x in call().values())
        assert {key: x.tobytes() for key, x in compressor.state_dict().items()} == before
    means = co.allreduce(sites, grads_of(sites.rank, 2), compressor)
    assert same_everywhere(b"".join(x.tobytes() for x in means.values()))
    assert compressor.step == 2


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("fault", ["shape", "scheme", "integers", "weight", "step"])
def test_faults_of_one_rank_are_errors_on_all(rank: int, fault: str) -> None:
    sites, compressor = make_sites(), wc.Compressor(TOPK)
    co.allreduce(sites, grads_of(sites.rank), compressor)
    grads, weight = grads_of(sites.rank, 1), 1
    used: Any = compressor
    if sites.rank == rank:
        if fault == "shape":
            grads["a"] = grads["a"][:-1]
        elif fault == "scheme":
            used = wc.Compressor("topk(0.2) | rice | raw")
            used.set_step(1)
        elif fault == "integers":
            grads["a"] = grads["a"].astype(np.int32)
        elif fault == "weight":
            weight = -1
        else:
            used = wc.Compressor(TOPK)
    check_error(lambda: co.allreduce(sites, grads, used, weight=weight), None, used)
    means = co.allreduce(sites, grads_of(sites.rank, 2), compressor)
    assert same_everywhere(b"".join(x.tobytes() for x in means.values()))
    assert compressor.step == 2


def test_an_exchange_that_waits_for_the_caller() -> None:
    sites, one, other = make_sites(), wc.Compressor(TOPK), wc.Compressor(TOPK)
    for step in range(3):
        co.allreduce(sites, grads_of(sites.rank, 77), one, commit=False).rollback()
        pending = co.allreduce(sites, grads_of(sites.rank, step), one, commit=False)
        means = co.allreduce(sites, grads_of(sites.rank, step), other)
        assert one.step == step
        pending.commit()
        assert all(pending.means[name].tobytes() == x.tobytes() for name, x in means.items())
        both = one.state_dict(), other.state_dict()
        assert all(both[0][key].tobytes() == both[1][key].tobytes() for key in both[0])


def test_an_interrupt_before_anything_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next calls of the interrupted rank fail with the others, and then all are in step."""
    sites, compressor = make_sites(), wc.Compressor(TOPK)
    co.allreduce(sites, grads_of(sites.rank), compressor)

    class Interrupts(dict[str, Any]):
        def __iter__(self) -> Any:
            raise KeyboardInterrupt

    if sites.rank == 1:
        with pytest.raises(KeyboardInterrupt):
            co.allreduce(sites, Interrupts(grads_of(1)), compressor)
    with pytest.raises(co.CollectiveError, match=r"skipped a call|sequence|exchange"):
        co.allreduce(sites, grads_of(sites.rank), compressor)
    assert compressor.step == 1
    co.allreduce(sites, grads_of(sites.rank, 1), compressor)
    assert compressor.step == 2


def test_sites_of_different_sizes() -> None:
    comm = world().Dup()
    local = comm.Split(int(comm.rank == 3), comm.rank)  # three ranks, and one
    across = comm.Split(local.rank, comm.rank)
    with pytest.raises(co.CollectiveError, match="sites must have equally many ranks"):
        co.allreduce(co.Sites(local, across), np.ones(4, np.float32), DENSE)


def test_sites_of_nodes() -> None:
    sites = co.Sites.of(world())
    assert (sites.local.size, sites.across.size, sites.size) == (4, 1, 4)
    assert co.allreduce(sites, np.array([sites.rank, 1], np.float32), DENSE).tolist() == [1.5, 1]
    assert "rank" in repr(sites)


def test_sparse_results_are_refused() -> None:
    with pytest.raises(co.CollectiveError, match="sparse=True has no meaning over Sites"):
        co.allreduce(make_sites(), {"w": np.ones(4, np.float32)}, TOPK, sparse=True)


def test_local_updates() -> None:
    """Movements are averaged over all ranks; an error of one is one of all; a rank that is behind joins."""
    sites, w = make_sites(), np.zeros(6, np.float32)

    def start() -> co.LocalUpdates:
        compressor = wc.Compressor("topk(1.0) | rice | raw")
        return co.LocalUpdates(None, {"w": w}, compressor, sites, every=1, momentum=0.5)

    local = start()
    assert not local.synchronize()
    w += sites.rank
    local.step()
    assert w.tolist() == [1.5] * 6
    w += np.nan if sites.rank == 2 else 1
    with pytest.raises(co.CollectiveError, match="site"):
        local.step()
    local.revert()
    assert local.round == 1
    w += 1
    local.step()
    assert same_everywhere(w.tobytes())
    if sites.rank == 3:  # it starts again
        w[:] = 7
        local = start()
    with pytest.raises(co.CollectiveError, match="rank 3: parameters or rounds differ"):
        local.exchange()
    assert local.synchronize() == (sites.rank == 3)
    assert same_everywhere(w.tobytes())
    w += 2 * sites.rank
    local.step()
    assert same_everywhere(w.tobytes())
    assert local.round == 3


@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize(
    "make",
    [lambda: wc.Compressor(TOPK), lambda: co.CLTk(0.1), lambda: co.OkTopK(0.1)],
    ids=["topk", "clt-k", "ok-topk"],
)
def test_fragments_of_local_updates(make: Any, delay: int) -> None:
    """A call that exchanges all of them keeps the ranges of the residuals."""
    sites, start = make_sites(), grads_of(0)
    parameters, expected = ({name: x.copy() for name, x in start.items()} for _ in range(2))
    local = co.LocalUpdates(None, parameters, make(), sites, every=4, fragments=3, delay=delay)
    for step in range(2 + 4 * 60):
        under_way = [name for one in local._delayed.waiting for name in one.names]  # they would be replaced
        for name in set(start).difference(under_way) if step < 9 else ():
            parameters[name] += grads_of(sites.rank, step)[name]
            expected[name] += sum(grads_of(rank, step)[name] for rank in range(4)) / 4
        if step == 10:
            local.exchange()
            assert same_everywhere(b"".join(x.tobytes() for x in parameters.values()))
        local.step()
    local.exchange()
    for name, x in parameters.items():  # all residuals have been sent
        np.testing.assert_allclose(x, expected[name], atol=1e-4)
    with pytest.raises(ValueError, match="commit=False over Sites"):
        local.exchange(commit=False)


def test_a_parameter_that_is_unfrozen_keeps_the_ranges() -> None:
    torch = pytest.importorskip("torch")
    sites = make_sites()
    named = {name: torch.nn.Parameter(torch.zeros(size)) for name, size in {"a": 5, "b": 20, "c": 10}.items()}
    named["a"].requires_grad_(False)
    local = co.LocalUpdates(None, named, wc.Compressor("topk(0.2) | rice | raw"), sites, every=1)
    for step in range(40):
        if step == 3:
            named["a"].requires_grad_(True)
            assert local.admit() == []
        with torch.no_grad():
            for name, p in named.items():
                if step < 9 and p.requires_grad:
                    p.add_(torch.from_numpy(np.full(p.numel(), sites.rank + len(name), np.float32)))
        local.step()
    for name, p in named.items():  # all residuals have been sent
        steps = 6 if name == "a" else 9
        assert np.allclose(p.detach().numpy(), steps * (1.5 + 1), atol=1e-4), name


def make_local(
    scheme: str, comm: Any, parameters: dict[str, Any] | None = None, fragments: int = 1
) -> tuple[co.LocalUpdates, wc.Compressor, dict[str, Any]]:
    """Return local updates of 12 elements, of which ranks of two per site have ranges of 6."""
    compressor, named = wc.Compressor(scheme), parameters or {"w": np.zeros(12, np.float32)}
    local = co.LocalUpdates(None, named, compressor, comm, every=fragments, fragments=fragments)
    return local, compressor, named


@pytest.mark.parametrize("fragments", [1, 2])
def test_local_updates_of_a_site_that_is_left(fragments: int) -> None:
    """It goes on alone with the residuals of its ranges, of which nothing is lost."""
    sites = make_sites()
    site: Any = sites.local.comm
    alone = co.Sites(sites.local, world().Split(world().rank))
    names = ["v", "w"][-fragments:]
    local, compressor, named = make_local(
        "topk(0.25) | rice | raw", sites, {x: np.zeros(12, np.float32) for x in names}, fragments
    )
    for _ in range(fragments):
        for name in names:
            named[name] += (np.arange(12) + 1) * (1 + sites.rank) / fragments
        local.step()
    local.rebind(alone)
    assert not local.synchronize()
    before, residuals = local.state_dict(), {}
    for name in names:
        own = compressor.residual(name)
        assert own is not None
        assert own.size == 6
        assert own.any()
        residuals[name] = np.concatenate(site.allgather(own))
    moved = {name: x - before[f"parameter/{name}"] for name, x in named.items()}
    for _ in range(8 * fragments):
        local.step()
    for name, x in named.items():
        means = np.mean(site.allgather(moved[name]), axis=0)
        assert np.allclose(x, before[f"parameter/{name}"] + means - residuals[name], rtol=1e-5), name


def test_local_updates_go_on_over_no_sites_with_other_ranges() -> None:
    """Residuals would be added to other elements; without residuals, a rank may change its place."""
    sites, comm = make_sites(), world().Dup()
    turned = co.Sites(comm.Split(comm.rank // 2, -comm.rank), comm.Split(comm.rank % 2, comm.rank))
    one_site = co.Sites(comm, comm.Split(comm.rank))
    local, _, named = make_local("topk(0.25) | rice | raw", sites)
    plain, _, _ = make_local(DENSE, comm)
    with pytest.raises(ValueError, match="Sites cannot take the place of another communicator"):
        plain.rebind(sites)
    named["w"] += 1 + sites.rank
    local.step()
    state = local.state_dict()
    for other, message in (
        (comm, "Sites cannot take the place of another communicator"),
        (turned, f"number {comm.rank % 2} of 2 in its site, and is now {1 - comm.rank % 2} of 2"),
        (one_site, f"number {comm.rank % 2} of 2 in its site, and is now {comm.rank} of 4"),
    ):
        with pytest.raises(ValueError, match=message):
            local.rebind(other)
    assert all(np.array_equal(x, state[key]) for key, x in local.state_dict().items())
    local.step()  # over the same Sites
    dense, _, named = make_local(DENSE, sites)
    total = 0.0
    for other in (sites, turned, one_site):
        dense.rebind(other)
        named["w"] += np.arange(12) * (1 + comm.rank)
        total += 2.5
        dense.step()
        assert named["w"].tolist() == (np.arange(12) * total).tolist()
