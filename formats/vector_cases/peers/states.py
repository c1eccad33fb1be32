"""States of local updates: bytes, digests, the outer step, and a peer that joins (spec/rounds.md, 6)."""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from formats.reference import Tensor, WireError, write
from formats.reference.floats import BY_NAME
from formats.vector_cases.peers.header import (
    ALLREDUCE,
    MEAN,
    Spec,
    Stored,
    add_weighted,
    bytes_of,
    find_factors,
    numbers_of,
    round_to,
)
from formats.vector_cases.peers.objects import (
    NAME,
    STATE,
    Contribution,
    Refused,
    check_place,
    has_arrived,
    is_signed,
    read_envelope,
)
from formats.vector_cases.peers.rounds import (
    OPEN,
    TAKES,
    Call,
    View,
    decode_payload,
    find_next,
    parse_scheme,
    read_round,
    stored_of,
)
from formats.vector_cases.peers.texts import LocalSettings, compressor_text

HEAD = "<QB"


@dataclass(frozen=True)
class State:
    """State before a round.

    Attributes:
        exchanges: successful ones.
        specs: of the parameters, in the order of their names.
        parameters, momenta: little-endian values of each; no momenta before the first step with them.
    """

    exchanges: int
    specs: tuple[Spec, ...]
    parameters: tuple[bytes, ...]
    momenta: tuple[bytes, ...] = ()

    @property
    def digest(self) -> bytes:
        """The digest of section 6."""
        out = [struct.pack("<QIB", self.exchanges, len(self.specs), bool(self.momenta))]
        for spec in self.specs:
            name = (spec.name or "").encode()
            out.append(struct.pack("<I", len(name)) + name)
            out.append(struct.pack("<BB", BY_NAME[spec.dtype].id, len(spec.shape)))
            out.append(struct.pack(f"<{len(spec.shape)}Q", *spec.shape))
        return hashlib.sha256(b"".join([*out, *self.parameters, *self.momenta])).digest()

    def write(self) -> bytes:
        """Return the body of a state object."""
        arrays = self.parameters + self.momenta
        specs = _number(self.specs, len(arrays))
        tensors = [
            Tensor(spec.name or "", spec.dtype, spec.shape, list(range(spec.size)), data)
            for spec, data in zip(specs, arrays, strict=True)
        ]
        return struct.pack(HEAD, self.exchanges, bool(self.momenta)) + write(tensors, names=False)

    def to_json(self) -> dict[str, Any]:
        """Return the field of a vector."""
        rows = [
            {**spec.to_json(), "parameter": self.parameters[n].hex()}
            | ({"momentum": self.momenta[n].hex()} if self.momenta else {})
            for n, spec in enumerate(self.specs)
        ]
        return {"exchanges": self.exchanges, "digest": self.digest.hex(), "tensors": rows}


def _number(specs: Sequence[Spec], count: int) -> list[Spec]:
    """Return specs of arrays whose names ascend with their numbers."""
    return [replace(specs[n % len(specs)], name=f"{n:08d}") for n in range(count)]


def read_state(body: bytes, specs: tuple[Spec, ...]) -> State:
    """Read a state of parameters. Raises Refused if the bytes are no state."""
    if len(body) < struct.calcsize(HEAD):
        raise Refused("truncated")
    exchanges, has_momenta = struct.unpack_from(HEAD, body)
    if exchanges >= 2**62 or has_momenta > 1:
        raise Refused("header")
    numbered = _number(specs, len(specs) * (1 + has_momenta))
    try:
        tensors = decode_payload(body[struct.calcsize(HEAD) :], numbered)
    except WireError as error:
        raise Refused(error.code) from error
    arrays = []
    for spec, tensor in zip(numbered, tensors, strict=True):
        values = [0.0] * spec.size
        for i, x in zip(tensor.indices, numbers_of(tensor.values, spec.dtype), strict=True):
            values[i] = x
        if not all(map(math.isfinite, values)):
            raise Refused("nonfinite")
        arrays.append(bytes_of(values, spec.dtype))
    return State(exchanges, specs, tuple(arrays[: len(specs)]), tuple(arrays[len(specs) :]))


def take_step(state: State, means: Sequence[Sequence[float]], settings: LocalSettings) -> State | None:
    """Return the state after a step by mean movements, or None if parameters would not be finite."""
    parameters, momenta = [], []
    for n, spec in enumerate(state.specs):
        kind = spec.dtype
        rate, factor = round_to(settings.rate, kind), round_to(settings.momentum, kind)
        old = numbers_of(state.momenta[n], kind) if state.momenta else None
        xs, ms = [], []
        for i, (x, d) in enumerate(zip(numbers_of(state.parameters[n], kind), means[n], strict=True)):
            m = d if old is None else round_to(round_to(factor * old[i], kind) + d, kind)
            u = round_to(round_to(factor * m, kind) + d, kind) if settings.nesterov else m
            ms.append(m)
            xs.append(round_to(x - round_to(rate * (u if settings.momentum else d), kind), kind))
        if not all(map(math.isfinite, xs)):
            return None
        parameters.append(bytes_of(xs, kind))
        momenta.append(bytes_of(ms, kind))
    kept = tuple(momenta) if settings.momentum else ()
    return State(state.exchanges + 1, state.specs, tuple(parameters), kept)


def average_by_senders(spec: Spec, stored: Sequence[Stored], factors: Sequence[float]) -> list[float]:
    """Return the means of a tensor, each over the members that store the element."""
    totals, divisors = add_weighted(spec, stored, factors, 1.0), [0.0] * spec.size
    for (indices, _), factor in zip(stored, factors, strict=True):
        for i in indices if factor else ():
            divisors[i] = round_to(divisors[i] + round_to(factor, spec.dtype), spec.dtype)
    least = round_to(max(factors), spec.dtype)
    return [round_to(x / max(n, least), spec.dtype) for x, n in zip(totals, divisors, strict=True)]


def average(
    state: State, members: Sequence[Contribution], settings: LocalSettings
) -> list[list[float]] | None:
    """Return the mean movements by parameter, or None if they count for nobody."""
    found = find_factors([one.header.weight for one in members], mean=True)
    if found is None:
        return None
    stored, means = [stored_of(one, state.specs) for one in members], []
    for spec in state.specs:
        rows = [one[spec.name or ""] for one in stored]
        if settings.divide == "senders":
            means.append(average_by_senders(spec, rows, found[0]))
        else:
            means.append(add_weighted(spec, rows, *found))
        if not all(map(math.isfinite, means[-1])):
            return None
    return means


@dataclass(frozen=True)
class Joiner:
    """Peer of local updates that joins a run.

    Attributes:
        view: of the run.
        specs: of the parameters, in the order of their names.
        scheme: of the Compressor.
        settings: of the outer optimizer.
    """

    view: View
    specs: tuple[Spec, ...]
    scheme: str
    settings: LocalSettings

    def call(self, number: int, state: State) -> Call:
        """Return the terms of a round for a peer with a state."""
        text = compressor_text(self.scheme, step=number) + self.settings.text
        return Call(ALLREDUCE, MEAN, text, self.specs, state.digest, (parse_scheme(self.scheme),))

    def find_states(self) -> dict[str, State | None]:
        """Return the states in the folder by path, the newest last; None of one that is not valid."""
        found: dict[str, State | None] = {}
        for path in sorted(self.view.run.objects):
            named = re.fullmatch(rf"states/([0-9]{{12}})\.({NAME})\.([0-9a-f]{{64}})", path)
            if named is None:
                continue
            try:
                found[path] = self._read(path, int(named[1]), named[2], bytes.fromhex(named[3]))
            except Refused:
                found[path] = None
        return found

    def _read(self, path: str, number: int, name: str, digest: bytes) -> State:
        data = self.view.run.objects[path]
        if not has_arrived(data, digest, self.view.rules.max_bytes + 200):
            raise Refused("digest")
        found = read_envelope(data)
        check_place(found, [STATE], self.view.hash, number, name)
        if not is_signed(self.view.run.keys, found, digest, found.signature):
            raise Refused("signature")
        return read_state(found.body, self.specs)

    def choose(self) -> tuple[int, State]:
        """Return the round and the state with which the peer begins."""
        provisional: tuple[int, State] | None = None
        for path, state in reversed(self.find_states().items()):
            if state is None:
                continue
            number = int(path[7:19])
            outcome = read_round(self.view, self.call(number, state), number)
            if outcome.decision == TAKES:
                return number, state
            if outcome.decision == OPEN and number == find_next(self.view):
                provisional = provisional or (number, state)
        if provisional is not None:
            return provisional
        found = self.view.find_start()[1]
        if found is None:
            raise Refused("start")
        return 0, read_state(found.body, self.specs)

    def join(self) -> tuple[int, State, int, State]:
        """Return the first round and its state, and the next open round and its state."""
        first, begun = self.choose()
        number, state = first, begun
        while (outcome := read_round(self.view, self.call(number, state), number)).decision != OPEN:
            after = None
            if outcome.decision == TAKES:
                means = average(state, outcome.members, self.settings)
                after = None if means is None else take_step(state, means, self.settings)
            number, state = number + 1, state if after is None else after
        return first, begun, number, state
