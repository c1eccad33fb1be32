"""Comparison of the ranks' outer states, and the transfer of one rank's state to all others.

Before each exchange, every rank sends 44 bytes: its round, its compressor's step, a CRC-32 of the state, of
the settings, and of the parameters' names, shapes and types, its steps since the last exchange, and a random
number.

Once the ranks' states have been compared, later exchanges compare some blocks of them, others in each round.
A rank digests its whole state after a start, a loaded state, new parameters or an error. Its digest then
differs from those of some blocks, so all ranks exchange digests of the whole states in the same call. A state
that changes without any of these on one rank, such as by a fault of memory or by other arithmetic, is thus
found at once if it differs everywhere, and after ``CHECKED_STEPS`` steps at the latest.
"""

from __future__ import annotations

import secrets
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import wirecodec as wc
from collectives.channel import ByteArray, Channel
from collectives.errors import CollectiveError, name_ranks
from collectives.exchange.specs import get_limits
from collectives.local_updates.outer import OuterSettings, OuterState
from collectives.sites.gather import broadcast_from, gather_all, gather_twice
from collectives.sites.sites import Sites

T = TypeVar("T")

_LAYOUT, _DIGEST = struct.Struct("<QqIIIQQ"), struct.Struct("<I")
_LOSSLESS = "all | raw-index | raw"
_COMPARED = (
    ("settings", "parameters", "settings"),
    ("specs", "shape", "names, shapes or types of the parameters"),
)


class StateSummary(NamedTuple):
    """Summary of a rank's state, equal for equal states but for the token.

    Attributes:
        round: exchanges so far.
        step: of the compressor.
        digest: CRC-32 of the parameters and momenta, or of some blocks of them.
        settings: CRC-32 of the settings.
        specs: CRC-32 of names, shapes and types of the parameters.
        inner_step: steps since the last exchange.
        token: of an exchange, a random number; of ``synchronize``, the identity of the latest exchange.
    """

    round: int
    step: int
    digest: int
    settings: int
    specs: int
    inner_step: int
    token: int

    @classmethod
    def of(
        cls,
        state: OuterState,
        settings: OuterSettings,
        step: int,
        inner_step: int,
        *,
        token: int | None = None,
        whole: bool = True,
    ) -> StateSummary:
        """Summarize a rank's state.

        Args:
            state, settings: of this rank.
            step: of this rank's compressor.
            inner_step: steps since the last exchange.
            token: see the attribute; None to draw one.
            whole: whether the digest is of the whole state, not of some blocks that depend on the round.
        """
        settings_crc, specs_crc = [
            zlib.crc32(text.encode("utf-8", "surrogatepass"))
            for text in (settings.describe(), state.describe())
        ]
        digest = state.digest() if whole else state.next_digest(settings.every)
        token = secrets.randbits(64) if token is None else token
        return cls(state.round, step, digest, settings_crc, specs_crc, inner_step, token)


def collect_states(
    channel: Channel | Sites,
    summarize: Callable[[], StateSummary],
    settings: OuterSettings,
    digest: Callable[[], int] | None = None,
    *,
    of_fragment: bool = False,
) -> list[StateSummary]:
    """Gather a summary of every rank's state, in rank order.

    Args:
        channel: open, or Sites; all ranks call this together.
        summarize: returns this rank's summary.
        settings: of this rank.
        digest: returns the digest of this rank's whole state; None over Sites. If it is given on all ranks,
            and digests of ranks differ that have taken part in the same exchanges, these digests take the
            place of all.
        of_fragment: whether the summaries are of one fragment of several. The error then has the remedy for
            ranks at which another one is due.

    Raises:
        CollectiveError: ``summarize`` raised on a rank, the ranks' settings or parameters differ, or a rank
            made another call; the same on all ranks.
        Timeout: a rank does not take part.
    """

    def pack() -> bytes:
        return _LAYOUT.pack(*summarize())

    def compare(blobs: Sequence[ByteArray]) -> bytes | None:
        if digest is None or not _has_unequal_digests(_read(blobs)):
            return None
        return _DIGEST.pack(digest())

    blobs, more = gather_twice(channel, pack, compare)
    table = _read(blobs)
    if more:
        digests = [_DIGEST.unpack(blob.tobytes())[0] for blob in more]
        table = [row._replace(digest=whole) for row, whole in zip(table, digests, strict=True)]
    for field, reason, what in _COMPARED:
        different = [
            rank for rank, other in enumerate(table) if getattr(other, field) != getattr(table[0], field)
        ]
        if different:
            text = f"{name_ranks(different)}: {what} differ from those of rank 0"
            if field == "settings":
                text += _compare_settings(channel, settings, different[0])
            if of_fragment and reason == "shape":
                text += ", or another fragment is due there; call synchronize() on all ranks"
            raise CollectiveError(text, ranks=different, reason=reason)
    return table


def _compare_settings(channel: Channel | Sites, settings: OuterSettings, rank: int) -> str:
    """Return which settings of a rank differ from those of rank 0; all ranks call this together."""
    lines = [
        blob.decode(errors="replace").split("\n")
        for blob in gather_all(channel, lambda: settings.describe().encode("utf-8", "surrogatepass"))
    ]
    both = [(own, first) for own, first in zip(lines[rank], lines[0], strict=False) if own != first]
    if len(both) == 1 and both[0][0].startswith("division="):
        return "; each fragment must have the same parameters, which depends on their order"
    return "".join(
        f"; {own} on rank {rank}, and {first} on rank 0"
        for own, first in both
        if not own.startswith("division=")
    )


def _read(blobs: Sequence[ByteArray | bytes]) -> list[StateSummary]:
    """Return the summaries that were gathered; raise CollectiveError if a rank has sent something else."""
    if wrong := [rank for rank, blob in enumerate(blobs) if len(blob) != _LAYOUT.size]:
        text = f"{name_ranks(wrong)}: another call was made there; call synchronize() on all ranks"
        raise CollectiveError(text, ranks=wrong, reason="protocol")
    return [StateSummary(*_LAYOUT.unpack(bytes(blob))) for blob in blobs]


def _has_unequal_digests(table: list[StateSummary]) -> bool:
    """Return whether digests differ from the leader's on ranks that have the same round and step."""
    leader = table[find_leader(table)]
    return any(other[:2] == leader[:2] and other.digest != leader.digest for other in table)


def find_leader(table: list[StateSummary]) -> int:
    """Return the lowest of the ranks that have taken part in the most exchanges."""
    return max(range(len(table)), key=lambda rank: (table[rank].round, -rank))


def identify(table: list[StateSummary]) -> int:
    """Return a number that no other exchange has, from the summaries before an exchange."""
    return sum(row.token for row in table) % 2**64


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
    channel: Channel | Sites, state: OuterState, settings: OuterSettings, leader: int, leader_round: int
) -> OuterState:
    """Send the leader's state to all ranks, and return it.

    Args:
        channel: open, or Sites; all ranks call this together.
        state, settings: of this rank; names, shapes and types are the same on all ranks.
        leader: the rank whose state is sent.
        leader_round: exchanges in which it has taken part.

    Raises:
        CollectiveError: the leader's state could not be encoded or decoded; the same on all ranks.
        Timeout: a rank does not take part.
    """
    has_momenta = bool(settings.momentum and leader_round)
    blob = broadcast_from(channel, lambda: encode_state(state, has_momenta=has_momenta), leader)
    try:
        return decode_state(blob, state, leader_round, has_momenta=has_momenta)
    except wc.WireError as error:
        text = f"rank {leader}: its state cannot be decoded: {error}"
        raise CollectiveError(text, ranks=[leader], reason="decode") from error


def encode_state(state: OuterState, *, has_momenta: bool) -> ByteArray:
    """Encode parameters, and momenta, as one lossless container."""
    names = sorted(state.parameters, key=str.encode)
    kinds = (state.parameters, state.momenta) if has_momenta else (state.parameters,)
    return wc.encode_many(_number([kind[name] for kind in kinds for name in names]), _LOSSLESS, names=False)


def decode_state(blob: ByteArray, like: OuterState, number: int, *, has_momenta: bool) -> OuterState:
    """Decode a container of ``encode_state``.

    Args:
        blob: the container.
        like: a state of the same names, shapes and types.
        number: round of the state.
        has_momenta: whether the container has momenta.

    Raises WireError if it has no such state.
    """
    names = sorted(like.parameters, key=str.encode)
    specs = [(like.parameters[name].shape, like.parameters[name].dtype) for name in names]
    schema = _number(specs * (2 if has_momenta else 1))
    tensors = wc.decode_many(blob, limits=get_limits(schema, [blob]), schema=schema)
    arrays = [tensors[key].to_dense() for key in schema]
    n = len(names)
    return OuterState(
        number,
        dict(zip(names, arrays[:n], strict=True)),
        dict(zip(names, arrays[n:], strict=True)) if has_momenta else {},
    )


def _number(items: Sequence[T]) -> dict[str, T]:
    """Return items by their numbers, which ascend as texts, too: readers know names by their order."""
    digits = len(str(len(items)))
    return {f"{number:0{digits}}": item for number, item in enumerate(items)}
