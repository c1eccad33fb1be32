"""Comparison of the ranks' outer states, and the transfer of one rank's state to all others.

Before each exchange, every rank sends 32 bytes: its round, its compressor's step, a CRC-32 of the state, one
of the settings, and its steps since the last exchange.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import wirecodec as wc
from collectives.allgather import allgather_bytes
from collectives.channel import Channel
from collectives.errors import CollectiveError, name_ranks
from collectives.exchange.specs import get_limits
from collectives.local_updates.outer import Array, OuterSettings, OuterState

__all__ = ["StateSummary", "check_states", "collect_states", "fetch_state", "find_leader", "join_arrays"]

_LAYOUT = struct.Struct("<QqIIQ")
_LOSSLESS = "all | raw-index | raw"


class StateSummary(NamedTuple):
    """Summary of a rank's state, equal for equal states.

    Attributes:
        round: exchanges so far.
        step: of the compressor.
        digest: CRC-32 of the parameters and momenta.
        settings: CRC-32 of the settings.
        inner_step: steps since the last exchange.
    """

    round: int
    step: int
    digest: int
    settings: int
    inner_step: int


def collect_states(
    channel: Channel, state: OuterState, settings: OuterSettings, step: int, inner_step: int
) -> list[StateSummary]:
    """Gather a summary of every rank's state, in rank order.

    Args:
        channel: open; all ranks call this together.
        state, settings: of this rank.
        step: of this rank's compressor.
        inner_step: steps since the last exchange.

    Raises:
        CollectiveError: the ranks' settings differ, or a rank made another call; the same on all ranks.
        Timeout: a rank does not take part.
    """
    own = StateSummary(state.round, step, state.digest(), zlib.crc32(str(settings).encode()), inner_step)
    table = [StateSummary(*_LAYOUT.unpack(x.tobytes())) for x in allgather_bytes(channel, _LAYOUT.pack(*own))]
    different = [rank for rank, other in enumerate(table) if other.settings != table[0].settings]
    if different:
        raise CollectiveError(
            f"{name_ranks(different)}: every, rate, momentum or nesterov differ from those of rank 0",
            ranks=different,
            reason="parameters",
        )
    return table


def find_leader(table: list[StateSummary]) -> int:
    """Return the lowest of the ranks that have taken part in the most exchanges."""
    return max(range(len(table)), key=lambda rank: (table[rank].round, -rank))


def check_states(table: list[StateSummary]) -> None:
    """Raise CollectiveError on all ranks if their parameters or outer states differ."""
    leader = find_leader(table)
    behind = [rank for rank, other in enumerate(table) if other[:3] != table[leader][:3]]
    if behind:
        raise CollectiveError(
            f"{name_ranks(behind)}: parameters or rounds differ from those of rank {leader}, which has taken"
            f" part in {table[leader].round} exchanges; call synchronize() on all ranks",
            ranks=behind,
            reason="parameters",
        )


def fetch_state(
    channel: Channel, state: OuterState, settings: OuterSettings, leader: int, leader_round: int
) -> OuterState:
    """Send the leader's state to all ranks, and return it.

    Args:
        channel: open; all ranks call this together.
        state, settings: of this rank.
        leader: the rank whose state is sent.
        leader_round: exchanges in which it has taken part.

    Raises:
        CollectiveError: the leader's parameters have other names, shapes or types than this rank's.
        Timeout: a rank does not take part.
    """
    sends = channel.rank == leader
    blob = allgather_bytes(channel, wc.encode_many(join_arrays(state), _LOSSLESS) if sends else b"")[leader]
    kinds = ["parameter/", "momentum/"] if settings.momentum and leader_round else ["parameter/"]
    schema = {kind + name: (x.shape, x.dtype) for kind in kinds for name, x in state.parameters.items()}
    try:
        tensors = wc.decode_many(blob, limits=get_limits(schema, [blob]), schema=schema)
    except wc.WireError as error:
        text = f"rank {leader}: its state does not fit this rank's parameters: {error}"
        raise CollectiveError(text, ranks=[leader], reason="shape") from error
    parts = {
        kind: {key[len(kind) :]: x.to_dense() for key, x in tensors.items() if key.startswith(kind)}
        for kind in ("parameter/", "momentum/")
    }
    return OuterState(leader_round, parts["parameter/"], parts["momentum/"])


def join_arrays(state: OuterState) -> dict[str, Array]:
    """Return the arrays of a state by their keys in ``state_dict``."""
    found = {f"parameter/{name}": x for name, x in state.parameters.items()}
    return found | {f"momentum/{name}": x for name, x in state.momenta.items()}
