"""A round as every reader sees it: its log, verdicts, members and their sum (spec/rounds.md, 1 to 5)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from formats.reference import Limits, Tensor, WireError, decode
from formats.reference.container import PREFIX_BYTES
from formats.reference.table import ENTRY_BYTES, read_table
from formats.vector_cases.peers.header import (
    GATHER_BYTES,
    OK,
    Header,
    Spec,
    Stored,
    describe,
    numbers_of,
    sum_tensors,
)
from formats.vector_cases.peers.objects import (
    DROPPED,
    KIND_NAMES,
    MEMBERS,
    NAME,
    NO_STATE,
    SETTINGS,
    SLOTS,
    STATE,
    TAKEN,
    Contribution,
    Envelope,
    Refused,
    Row,
    Rules,
    has_arrived,
    hash_run,
    read_contribution,
    read_proposal,
    read_settings,
    read_slot,
)

CHUNK = 2**24
NUMBERS = {
    "index": {"raw-index": 1, "bitmap": 2, "rice": 3},
    "value": {"raw": 1, "raw-bfloat16": 3, "qsgd": 4, "deflate": 6},
    "transform": {"": 0, "rfft": 1, "dct": 2},
}
"""Numbers of the codecs that the schemes of the vectors name."""
GOOD = "ok"
LOST, OPEN, VOID, OTHER, TAKES = "lost", "open", "void", "other-terms", "members"


@dataclass(frozen=True)
class Run:
    """Folder of a run.

    Attributes:
        name: of the run.
        objects: bytes by path.
        keys: public keys by name; empty without keys.
    """

    name: str
    objects: Mapping[str, bytes]
    keys: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """What a peer takes part in.

    Attributes:
        operation, reduction: as in the header.
        scheme: string that is hashed; "" for operation 1.
        specs: the tensors.
        state: digest of the peer's state.
        stages: schemes that the string names, as (transform, index codec, value codec).
    """

    operation: int
    reduction: int
    scheme: str
    specs: tuple[Spec, ...]
    state: bytes = NO_STATE
    stages: tuple[tuple[str, str, str], ...] = (("", "rice", "raw"),)

    @property
    def header(self) -> Header:
        """The header, apart from what differs between peers."""
        algorithm = 0 if self.operation == GATHER_BYTES else 1
        fields = {"operation": self.operation, "reduction": self.reduction, "algorithm": algorithm}
        return describe(self.specs, self.scheme, **fields)

    @property
    def terms(self) -> tuple[Any, ...]:
        """The terms of section 3."""
        return *self.header.terms, self.state


def parse_scheme(text: str) -> tuple[str, str, str]:
    """Return transform, index codec and value codec of a scheme's string."""
    parts = text.split(" | ")
    index, value = (part.partition("(")[0] for part in parts[-2:])
    narrow = re.fullmatch(r"raw\((\w+)\)", parts[-1])
    return parts[0] if len(parts) == 4 else "", index, f"raw-{narrow[1]}" if narrow else value


@dataclass(frozen=True)
class View:
    """Run with its settings, as all peers see it.

    Attributes:
        run: the folder.
        rules: in the settings.
        hash: of the run.
        slots: of the settings: by path, the kind of the object in it, or None if it is not valid.
    """

    run: Run
    rules: Rules
    hash: bytes
    slots: Mapping[str, str | None]

    @classmethod
    def of(cls, run: Run) -> View:
        """Find the settings; raise Refused if there are none."""
        slots: dict[str, str | None] = {}
        for slot in range(SLOTS):
            path = f"settings.{slot:02d}"
            if path not in run.objects:
                break
            slots[path] = None
            try:
                found = read_slot(run.objects[path], [SETTINGS], hash_run(run.name), 0, {})
                rules = read_settings(found.body)
            except Refused:
                continue
            slots[path] = KIND_NAMES[SETTINGS]
            return cls(run, rules, hash_run(run.name, found.body), slots)
        raise Refused("settings")

    def find_start(self) -> tuple[dict[str, str | None], Envelope | None]:
        """Return the slots of the state before round 0, and the first valid one."""
        slots: dict[str, str | None] = {}
        for slot in range(SLOTS):
            path = f"start.{slot:02d}"
            data = self.run.objects.get(path)
            if data is None:
                break
            slots[path] = None
            if len(data) > self.rules.max_bytes + 200:
                continue
            try:
                found = read_slot(data, [STATE], self.hash, 0, self.run.keys)
            except Refused:
                continue
            slots[path] = KIND_NAMES[STATE]
            return slots, found
        return slots, None


@dataclass
class Log:
    """Log of a round: what its slots are, and what they decide."""

    slots: dict[str, str | None] = field(default_factory=dict)
    proposals: dict[bytes, list[Row]] = field(default_factory=dict)
    pending: bytes | None = None
    taken: bytes | None = None

    @property
    def decision(self) -> list[Row] | None:
        """Accepted objects of the proposal that is taken; None without one, or if its object is missing."""
        return None if self.taken is None else self.proposals.get(self.taken)


def read_log(view: View, number: int) -> Log:
    """Read the log of a round up to its decision, or to its first free slot."""
    log = Log()
    for slot in range(SLOTS):
        path = f"rounds/{number:012d}/members.{slot:02d}"
        data = view.run.objects.get(path)
        if data is None or log.taken is not None:
            break
        log.slots[path] = None
        try:
            found = read_slot(data, [MEMBERS, TAKEN, DROPPED], view.hash, number, view.run.keys)
            _note(log, view, found)
        except Refused:
            continue
        log.slots[path] = KIND_NAMES[found.kind]
    return log


def _note(log: Log, view: View, found: Envelope) -> None:
    """Take note of a record; raise Refused if its body is wrong."""
    if found.kind == MEMBERS:
        rows = read_proposal(found, view.rules, view.run.keys)
        log.proposals.setdefault(found.digest, rows)
        log.pending = log.pending or found.digest
    elif len(found.body) != (32 if found.kind == TAKEN else 0):
        raise Refused("length")
    elif found.kind == TAKEN:
        log.taken = found.body
    else:
        log.pending = None


def find_contribution(view: View, number: int, name: str, digest: bytes) -> bytes | None:
    """Return the bytes of a contribution, or None if it has not arrived."""
    data = view.run.objects.get(f"rounds/{number:012d}/{name}.{digest.hex()}")
    return data if has_arrived(data, digest, view.rules.max_bytes + 304) else None


def judge(view: View, call: Call, number: int, name: str, data: bytes) -> str:
    """Return the verdict on a contribution that has arrived, under the terms of a call."""
    try:
        found = read_contribution(data, view.hash, number, name, view.rules)
        require_terms(found, call)
        if call.operation != GATHER_BYTES:
            check_container(found.payload, call, view.rules)
    except Refused as refused:
        return refused.code
    return GOOD


def require_terms(found: Contribution, call: Call) -> None:
    """Raise Refused for another status, and for the first difference of the terms."""
    if found.header.status != OK:
        raise Refused("absent")
    if found.state != call.state:
        raise Refused("parameters")
    pairs = list(zip(found.header.terms, call.header.terms, strict=True))
    for code, part in (("operation", pairs[:3]), ("shape", pairs[3:6]), ("scheme", pairs[6:])):
        if any(one != other for one, other in part):
            raise Refused(code)


def limits_of(specs: Sequence[Spec], payload: bytes) -> Limits:
    """Return the limits of section 3."""
    most = [2 * spec.size for spec in specs]
    entries = sum(max(1, -(-n // CHUNK)) for n in most) + sum(most) // CHUNK
    return Limits(max_bytes=len(payload), max_entries=entries, max_elements=sum(most), max_dense=sum(most))


def decode_payload(payload: bytes, specs: Sequence[Spec]) -> list[Tensor]:
    """Decode a container of tensors, in the order of their names. Raises WireError."""
    schema = {spec.name or "0": (spec.shape, spec.dtype) for spec in specs}
    single = len(specs) == 1 and specs[0].name is None
    return decode(payload, limits_of(specs, payload), schema, single=single).tensors


def measure_norm(values: Sequence[float]) -> float:
    """Return the L2 norm, with squares added in order; values are scaled if the squares leave the range."""
    squares = _add_squares(values)
    if 2.0**-900 <= squares < math.inf or not any(values):
        return math.sqrt(squares)
    exponent = math.frexp(max(map(abs, values)))[1]
    return math.ldexp(math.sqrt(_add_squares([math.ldexp(x, -exponent) for x in values])), exponent)


def _add_squares(values: Sequence[float]) -> float:
    total = 0.0
    for x in values:
        total += x * x
    return total


def check_container(payload: bytes, call: Call, rules: Rules) -> None:
    """Raise Refused if a container is not a part of the sum. Vectors have no transform that is accepted."""
    try:
        tensors = decode_payload(payload, call.specs)
    except WireError as error:
        raise Refused(error.code) from error
    if any(tensor.absent != "zero" for tensor in tensors):
        raise Refused("patch")
    values = [x for tensor in tensors for x in numbers_of(tensor.values, tensor.dtype)]
    if not all(map(math.isfinite, values)):
        raise Refused("nonfinite")
    if rules.max_norm is not None and measure_norm(values) > rules.max_norm:
        raise Refused("max-norm")
    n_entries = int.from_bytes(payload[8:12], "little")
    allowed = [{0} | {NUMBERS["transform"][one[0]] for one in call.stages}]
    allowed.append({1, 3} | {NUMBERS["index"][one[1]] for one in call.stages})
    allowed.append({1} | {NUMBERS["value"][one[2]] for one in call.stages})
    for entry in read_table(payload[PREFIX_BYTES : PREFIX_BYTES + ENTRY_BYTES * n_entries]):
        if any(
            x not in ids for x, ids in zip((entry.domain, entry.index, entry.value), allowed, strict=True)
        ):
            raise Refused("codec")


@dataclass
class Outcome:
    """Round as all readers with the terms of a call see it.

    Attributes:
        log: of the round.
        verdicts: by the paths of contributions; None of one that has not arrived.
        decision: "open", "lost", "void", "other-terms" or "members".
        members: that count, in their order.
    """

    log: Log
    verdicts: dict[str, str | None]
    decision: str
    members: list[Contribution]


def read_round(view: View, call: Call, number: int) -> Outcome:
    """Read a round, and judge all objects in its folder under the terms of a call."""
    log, verdicts = read_log(view, number), dict[str, str | None]()
    folder = f"rounds/{number:012d}/"
    for path in sorted(view.run.objects):
        named = re.fullmatch(rf"{folder}({NAME})\.([0-9a-f]{{64}})", path)
        if named is None:
            continue
        data = find_contribution(view, number, named[1], bytes.fromhex(named[2]))
        verdicts[path] = None if data is None else judge(view, call, number, named[1], data)
    decision, members = _decide(view, call, number, log)
    return Outcome(log, verdicts, decision, members)


def _decide(view: View, call: Call, number: int, log: Log) -> tuple[str, list[Contribution]]:
    if log.taken is None:
        return OPEN, []
    rows = log.decision
    if rows is None:
        return LOST, []
    objects = [(name, find_contribution(view, number, name, digest)) for name, digest, _ in rows]
    if any(data is None for _, data in objects):
        return LOST, []
    found, good = [], []
    for name, data in objects:
        assert data is not None
        try:
            one = read_contribution(data, view.hash, number, name, view.rules)
        except Refused:
            continue
        if one.header.status == OK:
            found.append(one)
        if judge(view, call, number, name, data) == GOOD:
            good.append(one)
    groups: dict[tuple[Any, ...], list[Contribution]] = {}
    for one in found:
        groups.setdefault(one.terms, []).append(one)
    largest = max(groups.values(), key=len, default=[])
    if len(largest) < view.rules.quorum:
        return VOID, []
    if largest[0].terms != call.terms:
        return OTHER, []
    return (TAKES, good) if len(good) >= view.rules.quorum else (VOID, [])


def stored_of(one: Contribution, specs: Sequence[Spec]) -> dict[str, Stored]:
    """Return what a contribution stores of each tensor, by name; "" is the name of a tensor without one."""
    ordered = sorted(specs, key=lambda spec: (spec.name or "").encode())
    tensors = decode_payload(one.payload, specs)
    return {
        spec.name or "": (list(tensor.indices), tensor.values)
        for spec, tensor in zip(ordered, tensors, strict=True)
    }


def sum_members(members: Sequence[Contribution], call: Call) -> list[bytes] | None:
    """Return the results of a round by tensor, or None if it counts for nobody."""
    stored = [stored_of(one, call.specs) for one in members]
    return sum_tensors(call.specs, stored, [one.header.weight for one in members], call.reduction)


def find_next(view: View) -> int:
    """Return the number of the round in which a peer without a state begins."""
    paths = [re.fullmatch(r"rounds/([0-9]{12})/.*", path) for path in view.run.objects]
    numbers = {int(found[1]) for found in paths if found is not None}
    following = 0
    for number in sorted(numbers, reverse=True):
        log = read_log(view, number)
        if log.decision:
            following = number + 1
            break
    while following in numbers and read_log(view, following).decision is not None:
        following += 1
    return following
