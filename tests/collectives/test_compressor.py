"""A Compressor's state changes if and only if the exchange succeeds, on all ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.agreement.header import Header, Operation
from collectives.communicator import Communicator
from collectives.exchange.encoding import Inputs
from collectives.exchange.session import open_exchange
from collectives.simulation.communicator import SimulatedComm
from tests.collectives.conftest import World, interrupt_gathers
from tests.collectives.inputs import bits, gradient

Collective: TypeAlias = Callable[..., object]

SCHEME = "topk(0.1) | rice | qsgd(bits=4)"


def held_back(compressor: wc.Compressor) -> bytes:
    residual = compressor.residual("w")
    assert residual is not None
    return bits(residual)


def test_steps_are_those_of_the_compressors_alone(world: World) -> None:
    """Steps over ranks have the results and the residuals of local compressors."""
    grads = [
        [{"w": gradient(10 * step + rank, (20, 30)), "b": gradient(rank, 40)} for rank in range(world.n)]
        for step in range(3)
    ]
    alone = [wc.Compressor(SCHEME, seed=3) for _ in range(world.n)]
    expected = []
    for step in grads:
        total = {name: np.zeros(x.shape, np.float32) for name, x in step[0].items()}
        for rank, compressor in enumerate(alone):
            for name, tensor in compressor.decompress(compressor.compress(step[rank], rank=rank)).items():
                total[name] = total[name] + tensor.to_dense()
        expected.append({name: bits(x / np.float32(world.n)) for name, x in total.items()})

    def check(comm: Communicator) -> tuple[list[dict[str, bytes]], bytes]:
        compressor = wc.Compressor(SCHEME, seed=3)
        means = [co.allreduce(comm, step[comm.rank], compressor) for step in grads]
        assert compressor.step == 3
        return [{name: bits(x) for name, x in mean.items()} for mean in means], held_back(compressor)

    assert world.run(check) == [(expected, held_back(one)) for one in alone]


def test_one_tensor_without_a_name(world: World) -> None:
    def check(comm: Communicator) -> tuple[int, tuple[int, ...]]:
        compressor = wc.Compressor(SCHEME)
        gathered = co.allgather(comm, gradient(comm.rank), compressor)
        mean = co.allreduce(comm, gradient(comm.rank), compressor)
        assert compressor.step == 2
        assert all(isinstance(tensor, wc.SparseTensor) for tensor in gathered)
        return len(gathered), mean.shape

    assert world.run(check) == [(world.n, (1000,))] * world.n


def state(compressor: wc.Compressor) -> dict[str, bytes]:
    return {key: bits(x) for key, x in compressor.state_dict().items()}


@pytest.mark.parametrize("call", [co.allgather, co.allreduce])
def test_a_failed_step_changes_nothing(world: World, call: Collective) -> None:
    """If one rank cannot encode, no rank commits, and a second attempt is not affected."""
    odd = world.n - 1

    def check(comm: Communicator) -> str:
        compressor = wc.Compressor(SCHEME)
        call(comm, {"w": gradient(comm.rank)}, compressor)
        before = state(compressor)
        bad = gradient(comm.rank + 1)
        if comm.rank == odd:
            bad[17] = np.nan
        with pytest.raises(co.CollectiveError) as info:
            call(comm, {"w": bad}, compressor)
        assert state(compressor) == before
        call(comm, {"w": gradient(comm.rank + 2)}, compressor)
        assert compressor.step == 2
        return str(info.value)

    texts = world.run(check)
    assert set(texts) == {texts[0]}
    assert f"rank {odd}: encoding failed at element 17" in texts[0]
    assert "'w'" in texts[0]


class Corrupting(wc.Compressor):
    """Corrupt the container of one rank after its encoding."""

    odd = -1

    def prepare(
        self, gradients: Mapping[str, Any], *, rank: int = 0, ranks: int = 1, hold_zeros: bool = False
    ) -> wc.Prepared:
        prepared = super().prepare(gradients, rank=rank, ranks=ranks, hold_zeros=hold_zeros)
        if rank == self.odd:
            prepared.blob = prepared.blob.copy()
            prepared.blob[-1] ^= 0x40
        return prepared


@pytest.mark.parametrize("call", [co.allgather, co.allreduce])
def test_bytes_that_no_rank_can_decode(world: World, call: Collective) -> None:
    """All ranks raise the same error for an invalid container, roll back, and continue."""

    def check(comm: Communicator) -> tuple[str, tuple[int, ...], str]:
        compressor = Corrupting(SCHEME)
        compressor.odd = world.n - 1
        with pytest.raises(co.CollectiveError) as info:
            call(comm, {"w": gradient(comm.rank)}, compressor)
        assert compressor.step == 0
        assert isinstance(info.value.__cause__, wc.WireError)
        compressor.odd = -1
        call(comm, {"w": gradient(comm.rank)}, compressor)
        assert compressor.step == 1
        return str(info.value), info.value.ranks, info.value.reason

    results = world.run(check)
    assert set(results) == {results[0]}
    text, ranks, reason = results[0]
    assert (ranks, reason) == ((world.n - 1,), "decode")
    assert f"rank {world.n - 1}: its container cannot be decoded: ChecksumMismatch entry-checksum" in text


def test_a_rank_that_alone_cannot_decode_has_sent_its_step(world: World) -> None:
    """The others have its bytes and commit, so it also commits, and the next step is the same for all."""
    tensors = {"w": gradient(0)}

    def check(comm: Communicator) -> int:
        compressor = wc.Compressor(SCHEME)
        short = comm.rank == world.n - 1
        try:
            header = Header(operation=Operation.ALLGATHER)
            with open_exchange(comm, lambda: Inputs(tensors), compressor, 0, header) as (channel, local):
                local.gather(channel)
                if short:
                    raise MemoryError("no room to decode into")
        except MemoryError:
            assert short
        co.allreduce(comm, tensors, compressor)
        return compressor.step

    assert world.run(check) == [2] * world.n


def test_an_interrupted_exchange_is_rolled_back() -> None:
    def check(comm: SimulatedComm) -> int:
        compressor = wc.Compressor(SCHEME)
        interrupt_gathers(comm)
        with pytest.raises(KeyboardInterrupt):
            co.allreduce(comm, {"w": gradient(0)}, compressor)
        return compressor.step

    assert co.simulate(1, check) == [0]


def test_a_rank_at_another_step_is_found(several: World) -> None:
    """A checkpoint of another step on one rank is an error, because schedules and seeds would differ."""

    def check(comm: Communicator) -> None:
        compressor = wc.Compressor(SCHEME)
        if comm.rank == several.n - 1:
            compressor.compress({"w": gradient(0)})
        co.allreduce(comm, {"w": gradient(comm.rank)}, compressor)

    errors = several.errors(check)
    assert len({str(error) for error in errors}) == 1
    assert (errors[0].ranks, errors[0].reason) == ((several.n - 1,), "scheme")
    assert "step 1" in str(errors[0])
