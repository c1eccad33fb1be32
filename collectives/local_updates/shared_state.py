"""States of local updates in a store: their bytes, and the digest by which peers compare them.

The page is formats/spec/rounds.md, section 6. Unlike the checksums that ranks exchange otherwise, the digest
is a SHA-256: in a store, states of strangers are compared.
"""

from __future__ import annotations

import hashlib
import struct

import numpy as np

import wirecodec as wc
from collectives.agreement.header import DTYPE_CODES
from collectives.errors import Refused
from collectives.local_updates.agreement import decode_state, encode_state
from collectives.local_updates.outer import OuterState
from wirecodec.interop import find_nonfinite

_HEAD = struct.Struct("<QB")
_MAX_HEAD, _MAX_ENTRY = 1024, 128
"""Bytes that a container adds, at most: once, and per tensor beside its dimensions."""


def hash_state(state: OuterState) -> bytes:
    """Return the SHA-256 of rounds, names, shapes, types, parameters and momenta."""
    names = sorted(state.parameters, key=str.encode)
    total = hashlib.sha256(struct.pack("<QIB", state.round, len(names), bool(state.momenta)))
    for name in names:
        x, encoded = state.parameters[name], name.encode()
        total.update(struct.pack("<I", len(encoded)) + encoded)
        total.update(struct.pack(f"<BB{x.ndim}Q", DTYPE_CODES[x.dtype.name], x.ndim, *x.shape))
    for kind in (state.parameters, state.momenta):
        for name in names if kind else ():
            total.update(np.ascontiguousarray(kind[name]).reshape(-1).view(np.uint8).data)
    return total.digest()


def check_size(state: OuterState, limit: int, *, has_momenta: bool) -> None:
    """Raise ValueError if a state can have more bytes than the run allows.

    Args:
        state: of this peer.
        limit: ``max_bytes`` of the run.
        has_momenta: whether states have momenta, now or later.
    """
    one = sum([x.nbytes + _MAX_ENTRY + 9 * x.ndim for x in state.parameters.values()])
    size = one * (2 if has_momenta else 1) + _MAX_HEAD
    if size > limit:
        raise ValueError(
            f"the state of local updates has up to {size} bytes, and the run allows {limit}: begin another"
            f" run, with max_bytes={size} or more for StoreComm on all peers"
        )


def pack_state(state: OuterState) -> bytes:
    """Serialize a state: its round, whether it has momenta, and a container."""
    has_momenta = bool(state.momenta)
    return _HEAD.pack(state.round, has_momenta) + encode_state(state, has_momenta=has_momenta).tobytes()


def unpack_state(body: bytes, like: OuterState) -> OuterState:
    """Parse a state; raise Refused if its names, shapes or types are others.

    Args:
        body: the bytes.
        like: a state of this peer.
    """
    if len(body) < _HEAD.size:
        raise Refused("truncated", "a state has no whole header")
    number, momenta = _HEAD.unpack_from(body)
    if number >= 2**62 or momenta > 1:
        raise Refused("header", "the header of a state is not valid")
    blob = np.frombuffer(body, np.uint8)[_HEAD.size :]
    try:
        state = decode_state(blob, like, number, has_momenta=bool(momenta))
    except wc.WireError as error:
        raise Refused(error.code, error.message) from error
    if any(find_nonfinite(x) >= 0 for kind in (state.parameters, state.momenta) for x in kind.values()):
        raise Refused("nonfinite", "a state has NaN or Inf")
    return state
