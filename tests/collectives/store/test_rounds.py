"""Rounds over a folder: the bits of a mean, peers that are late, and the results of refusals."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from tests.collectives.store.peers import gradient, make_comm, run_each

pytest.importorskip("fsspec")

NAMES = "alice", "bob", "carol"


def on_all(folder: Path, call: Any, names: tuple[str, ...] = NAMES, **settings: Any) -> list[Any]:
    """Call ``call(comm, number)`` on all peers at once."""
    comms = [make_comm(folder, name, quorum=len(names), **({"deadline": 0.05} | settings)) for name in names]
    return run_each(lambda n: call(comms[n], n), range(len(comms)))


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("scheme", ["topk(0.25) | rice | qsgd(bits=4)", None])
def test_the_bits_are_those_of_an_all_reduce(tmp_path: Path, dtype: str, scheme: str | None) -> None:
    """The names' order is the order of the ranks."""
    inputs = [np.random.default_rng(n).normal(size=100).astype(dtype) for n in range(3)]
    weights = [1.0, 0.5, 0.25]

    def call(comm: Any, n: int) -> Any:
        return co.allreduce(comm, inputs[n], scheme, seed=n, weight=weights[n])

    expected = co.simulate(3, lambda comm: call(comm, comm.rank))[0]
    for result in on_all(tmp_path, call):
        assert result.tobytes() == expected.tobytes()


def test_sums_of_named_tensors_and_sparse_ones(tmp_path: Path) -> None:
    inputs = [{"a": gradient(n), "b": gradient(n, 1).reshape(8, 8)} for n in range(3)]
    scheme = "topk(0.1) | rice | raw"

    def call(comm: Any, n: int) -> Any:
        return co.allreduce(comm, inputs[n], scheme, op="sum"), co.allreduce(
            comm, inputs[n], scheme, sparse=True
        )

    expected, sparse = co.simulate(3, lambda comm: call(comm, comm.rank))[0]
    for dense, found in on_all(tmp_path, call):
        assert all(dense[name].tobytes() == expected[name].tobytes() for name in expected)
        assert all(np.array_equal(found[name].indices, sparse[name].indices) for name in sparse)
        assert dense["b"].shape == (8, 8)


def test_gathers(tmp_path: Path) -> None:
    def call(comm: Any, n: int) -> Any:
        blobs = co.allgather_bytes(comm, b"ab"[:n])
        tensors = co.allgather(comm, gradient(n), "topk(0.1) | rice | raw")
        return [blob.tobytes() for blob in blobs], [x.to_dense().tolist() for x in tensors]

    expected = co.simulate(3, lambda comm: call(comm, comm.rank))[0]
    assert on_all(tmp_path, call) == [expected] * 3


def test_a_late_peer_gets_the_result_and_is_rolled_back(tmp_path: Path) -> None:
    """What the three rounds have summed, and what residuals have, is all that was given but the late step."""
    compressors: list[Any] = [wc.Compressor("topk(0.25) | rice | raw") for _ in range(3)]
    on_time = threading.Event()
    given = [[gradient(n, k) for k in range(3)] for n in range(3)]
    late_round = 1

    def call(comm: Any, n: int) -> Any:
        results = []
        for k in range(3):
            comm._expected = frozenset(NAMES)
            comm._timing = replace(comm._timing, deadline=0.3 if k == late_round else 30.0)
            if k == late_round and n == 2:
                on_time.wait()
                before = compressors[n].residual("w").copy()
            results.append(co.allreduce(comm, {"w": given[n][k]}, compressors[n], op="sum")["w"])
            if k == late_round:
                assert comm.last.members == (NAMES[:2])
                assert comm.last.rank == (None if n == 2 else n)
                if n == 2:
                    assert np.array_equal(compressors[n].residual("w"), before)
                on_time.set()
            else:
                assert comm.last.members == NAMES
        return results

    comms = [make_comm(tmp_path, name, timeout=60) for name in NAMES]
    results = run_each(lambda n: call(comms[n], n), range(3))
    for others in zip(*results, strict=True):
        assert len({x.tobytes() for x in others}) == 1
    total = sum(results[0])
    kept = sum(c.residual("w") for c in compressors)
    sent = sum(given[n][k] for n in range(3) for k in range(3) if (n, k) != (2, late_round))
    assert np.array_equal(total + kept, sent)


def test_a_round_without_a_quorum_is_void(tmp_path: Path) -> None:
    comm = make_comm(tmp_path, "alice", timeout=0.3, deadline=0.1)
    compressor = wc.Compressor("topk(0.25) | rice | raw")
    with pytest.raises(co.CollectiveError, match=r"round 0 is void") as raised:
        co.allreduce(comm, {"w": gradient(0)}, compressor)
    assert raised.value.reason == "timeout"
    assert compressor.residual("w") is None
    assert comm.round == 1
    other = make_comm(tmp_path, "bob")
    a, b = run_each(lambda c: co.allreduce(c, gradient(0)), (comm, other))
    assert a.tobytes() == b.tobytes()


def test_a_peer_that_cannot_encode_holds_nobody_up(tmp_path: Path) -> None:
    """The others go on at once, long before the deadline."""

    def call(comm: Any, n: int) -> Any:
        results: list[Any] = [co.allreduce(comm, gradient(n))]
        x = np.full(64, np.nan, np.float32) if n == 2 else gradient(n)
        begin = time.monotonic()
        try:
            results.append(co.allreduce(comm, {"w": x}, wc.Compressor("topk(0.25) | rice | raw")))
        except co.CollectiveError as error:
            return error.reason
        assert time.monotonic() - begin < 15
        return comm.last.refused

    comms = [make_comm(tmp_path, name, quorum=2, deadline=30.0, timeout=60) for name in NAMES]
    # The first round has no expectation, so it is decided by hand.
    for comm in comms:
        comm._expected = frozenset(NAMES)
    assert run_each(lambda n: call(comms[n], n), range(3)) == [{"carol": "absent"}] * 2 + ["value"]


def test_peers_that_differ_from_the_members(tmp_path: Path) -> None:
    """The majority goes on; the other one learns how it differs."""

    def call(comm: Any, n: int) -> Any:
        shape = (8, 8) if n == 2 else (64,)
        try:
            co.allreduce(comm, gradient(n).reshape(shape))
        except co.CollectiveError as error:
            return error.reason, "differs" in str(error)
        return comm.last.members

    comms = [make_comm(tmp_path, name, deadline=0.3) for name in NAMES]
    a, b, c = run_each(lambda n: call(comms[n], n), range(3))
    assert a == b == NAMES[:2]
    assert c == ("shape", True)


def test_another_process_under_the_same_name(tmp_path: Path) -> None:
    """One of both counts; the other one is told."""
    first = make_comm(tmp_path, "alice", deadline=0.3)
    bob = make_comm(tmp_path, "bob", deadline=0.3)
    run_each(lambda c: co.allreduce(c, gradient(0)), (first, bob))
    second = make_comm(tmp_path, "alice", deadline=0.3)
    assert second.locate() == 1

    def call(n: int) -> Any:
        found: list[tuple[Any, Any]] = []
        for k in (1, 2):
            path = tmp_path / f"run/rounds/{k:012d}"
            while n == 1 and len(list(path.glob("alice.*"))) < 2:
                time.sleep(0.01)
            try:
                result = co.allreduce((first, bob, second)[n], gradient(n, k), op="sum")
            except co.CollectiveError as error:
                found.append((error.reason, None))
            else:
                found.append((result.tobytes(), (first, bob, second)[n].last.rank))
        return found

    a, b, c = run_each(call, range(3))
    for k in range(2):
        winner = 0 if a[k][1] == 0 else 2
        ranks = sorted((a[k][1], c[k][1]), key=str)
        assert ranks == [0, None]
        assert b[k][0] == (gradient(winner, k + 1) + gradient(1, k + 1)).tobytes()
    assert "name" in {reason for reason, _ in (*a, *c)}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"algorithm": "dense"}, "algorithm is 'dense'; over a StoreComm"),
        ({"nonfinite": "propagate"}, "nonfinite is 'propagate'"),
        ({"commit": False}, "commit=False has no meaning"),
        ({"op": "max"}, "op is 'max'"),
    ],
)
def test_arguments_without_a_meaning(tmp_path: Path, settings: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        co.allreduce(make_comm(tmp_path, "alice"), gradient(0), **settings)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"name": "../x"}, "name is '../x'; it must have"),
        ({"run": "a/b"}, "run is 'a/b'; it must have"),
        ({"quorum": 0}, "quorum is 0"),
        ({"deadline": 0}, "deadline is 0"),
        ({"keep": 100}, "keep must be at least twice"),
        ({"max_norm": -1}, "max_norm is -1"),
        ({"key": b"1"}, "key and keys belong together"),
    ],
)
def test_wrong_settings(tmp_path: Path, settings: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"run": "run", "name": "alice", "quorum": 1} | settings
    with pytest.raises(ValueError, match=text):
        co.StoreComm(str(tmp_path), **given)


def test_rules_are_those_of_the_run(tmp_path: Path) -> None:
    make_comm(tmp_path, "alice", max_norm=2.0)
    with pytest.raises(ValueError, match=r"max_norm is 3\.0, and 2\.0 in the run"):
        make_comm(tmp_path, "bob", max_norm=3.0)


def test_a_run_with_rounds_is_continued_aloud_or_not_at_all(tmp_path: Path) -> None:
    """A run that nobody has taken part in is new, also for the second peer."""
    begin = partial(make_comm, tmp_path, quorum=1, deadline=0.01)
    co.allgather_bytes(begin("alice", resume=False), b"x")
    text = r"run 'run' in .*run is at round 1 already"
    with pytest.warns(UserWarning, match=f"{text}: peer 'alice' continues it. Pass resume=True"):
        assert begin("alice", resume=None).locate() == 1
    assert begin("alice", resume=True).locate() == 1
    with pytest.raises(ValueError, match=f"{text}, and resume is False"):
        begin("alice", resume=False)
    make_comm(tmp_path / "other", "alice", resume=False)
    make_comm(tmp_path / "other", "bob", resume=None)


def test_objects_of_old_rounds_are_deleted(tmp_path: Path) -> None:
    comm = make_comm(tmp_path, "alice", quorum=1, deadline=0.001, poll=0.001, publish_every=1, keep=2)
    for _ in range(40):
        co.allgather_bytes(comm, b"x")
    folders = sorted(p.name for p in (tmp_path / "run" / "rounds").iterdir())
    assert len(folders) == 2 * 16
    objects = list((tmp_path / "run" / "rounds").glob("*/alice.*"))
    assert len(objects) == 2


def test_the_memory_file_system(tmp_path: Path) -> None:
    url = f"memory://{tmp_path.name}"
    results = run_each(
        lambda n: [x.tobytes() for x in co.allgather_bytes(make_comm(url, NAMES[n], quorum=3), bytes(n))],
        range(3),
    )
    assert results == [[b"", b"\0", b"\0\0"]] * 3


def test_a_process_that_is_started_again_in_a_round_is_late(tmp_path: Path) -> None:
    """Its earlier life has contributed; that is no error."""
    comms = [make_comm(tmp_path, name, deadline=0.3) for name in ("alice", "bob")]
    comms[0].move_to(0)
    comms[0]._place.files.patience = 0.1
    before = gradient(9)

    def die(path: str) -> Any:
        raise KeyboardInterrupt

    entries = comms[0]._place.files.entries
    calls = []

    def once(path: str) -> Any:
        calls.append(path)
        return entries(path) if len(calls) <= 2 else die(path)

    comms[0]._place.files.entries = once
    with pytest.raises(KeyboardInterrupt):
        co.allreduce(comms[0], before, op="sum")
    again = make_comm(tmp_path, "alice", deadline=0.3)

    def call(n: int) -> Any:
        while n and len(list(tmp_path.glob(f"run/rounds/{0:012d}/alice.*"))) < 2:
            time.sleep(0.01)
        return co.allreduce((again, comms[1])[n], gradient(n), op="sum")

    results = run_each(call, range(2))
    assert results[0].tobytes() == results[1].tobytes()
    own = gradient(0) if again.last.rank is not None else before
    assert np.array_equal(results[0], own + gradient(1))


def test_a_round_of_which_too_few_are_good_is_void_after_the_deadline(tmp_path: Path) -> None:
    """Everybody has arrived, so nobody waits for the timeout."""
    comms = [make_comm(tmp_path, name, deadline=0.3, timeout=60.0) for name in NAMES[:2]]
    for comm in comms:
        comm._expected = frozenset(NAMES[:2])

    def call(n: int) -> str:
        x = np.full(64, np.nan, np.float32) if n else gradient(n)
        with pytest.raises(co.CollectiveError) as raised:
            co.allreduce(comms[n], {"w": x}, wc.Compressor("topk(0.25) | rice | raw"))
        return raised.value.reason

    begin = time.monotonic()
    assert run_each(call, range(2)) == ["timeout", "value"]
    assert time.monotonic() - begin < 40


def test_the_cost_of_a_round(tmp_path: Path) -> None:
    """Bytes are those of the containers, and a few hundred per peer; requests are n + 3, and the polls."""
    n, rounds, size = 4, 5, 100_000
    names = [f"peer{k}" for k in range(n)]
    comms = [make_comm(tmp_path, name, quorum=n, deadline=0.05, poll=0.05) for name in names]
    before = [replace(comm.traffic) for comm in comms]
    for comm in comms:
        comm._expected = frozenset(names)
    blobs = [np.random.default_rng(k).bytes(size) for k in range(n)]

    def call(k: int) -> None:
        for _ in range(rounds):
            co.allgather_bytes(comms[k], blobs[k])

    run_each(call, range(n))
    for comm, start in zip(comms, before, strict=True):
        sent = (comm.traffic.sent - start.sent) / rounds
        received = (comm.traffic.received - start.received) / rounds
        assert size < sent < size + 2000
        assert (n - 1) * size < received < (n - 1) * (size + 500) + 4000
