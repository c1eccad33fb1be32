"""Local updates: states, the step of the outer optimizer, and peers that join (spec/rounds.md, section 6)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace

from formats.vector_cases.case import Case, patch
from formats.vector_cases.peer_case import join_case
from formats.vector_cases.peers.folder import Folder, encode
from formats.vector_cases.peers.header import Spec, bytes_of
from formats.vector_cases.peers.objects import STATE, Envelope
from formats.vector_cases.peers.rounds import read_round
from formats.vector_cases.peers.states import Joiner, State, average, take_step
from formats.vector_cases.peers.texts import LocalSettings
from formats.vector_cases.rounds import SCHEME, begin

Rows = Sequence[dict[int, float]]
SMALL = (Spec("a", "float32", (2, 2)), Spec("w", "float32", (3,)))
MANY = (
    *(Spec(f"layer{n}", "float32", (2,)) for n in range(5)),
    Spec("z", "float64", (2,)),
    Spec("é", "float32", ()),
)
"""With momenta, 14 arrays: their numbers do not ascend as texts."""
FIRST: Rows = [{0: 0.1, 3: -2.0}, {1: 0.75}]
SECOND: Rows = [{0: 0.3}, {1: 1e-3, 2: 5.0}]
THIRD: Rows = [{1: -1.0, 3: 7.0}, {}]


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield _sgd()
    yield _momentum()
    yield _nesterov()
    yield _senders()
    yield _choice()
    yield _open()
    yield _starts()
    yield _overflow()


def _begin_state(specs: tuple[Spec, ...], exchanges: int, *, momenta: bool) -> State:
    parameters = [
        bytes_of([1.0 + n + i / 8 for i in range(one.size)], one.dtype) for n, one in enumerate(specs)
    ]
    moving = [bytes_of([0.1 * n - i / 3 for i in range(one.size)], one.dtype) for n, one in enumerate(specs)]
    return State(exchanges, specs, tuple(parameters), tuple(moving) if momenta else ())


def _joiner(folder: Folder, specs: tuple[Spec, ...], settings: LocalSettings) -> Joiner:
    return Joiner(folder.view, specs, SCHEME, settings)


def _exchange(
    folder: Folder,
    joiner: Joiner,
    number: int,
    state: State,
    movements: Sequence[Rows],
    weights: Sequence[float] = (),
    *,
    void: bool = False,
) -> State:
    """Let peers exchange movements in a round; return the state after it."""
    call, names = joiner.call(number, state), ("alice", "bob", "carol")
    given = weights or [1.0] * len(movements)
    made = [
        folder.contribute(call, number, name, encode(joiner.specs, rows, names=True), weight=weight)
        for name, rows, weight in zip(names, movements, given, strict=False)
    ]
    folder.decide(number, [] if void else made)
    outcome = read_round(folder.view, call, number)
    means = average(state, outcome.members, joiner.settings) if outcome.members else None
    after = None if means is None else take_step(state, means, joiner.settings)
    return state if after is None else after


def _sgd() -> Case:
    folder = begin()
    joiner = _joiner(folder, SMALL, LocalSettings(every=4, rate=0.7))
    state = _begin_state(SMALL, 2, momenta=False)
    path = folder.publish(3, "alice", state.write())
    after = _exchange(folder, joiner, 3, state, (FIRST, SECOND, THIRD))
    after = _exchange(folder, joiner, 4, after, (FIRST, SECOND), void=True)
    _exchange(folder, joiner, 5, after, (SECOND, THIRD), (1.0, 0.25))
    about = "A state before round 3, and three rounds without momentum, of which one is void."
    return join_case("join-sgd", about, folder, joiner, 3, 6, {path: True})


def _momentum() -> Case:
    folder = begin(max_bytes=8192)
    joiner = _joiner(folder, MANY, LocalSettings(every=10, rate=0.3, momentum=0.9))
    state = _begin_state(MANY, 5, momenta=True)
    path = folder.publish(8, "bob", state.write())
    rows: Rows = [{0: 0.1 * n, 1: -1.5} for n in range(6)]
    others: Rows = [{1: 0.3} for _ in range(6)]
    after = _exchange(folder, joiner, 8, state, ([*rows, {0: 3.0}], [*others, {}]))
    _exchange(folder, joiner, 9, after, ([*others, {}], [*rows, {0: -3.0}]))
    about = "Momentum, types of both sizes, and 14 arrays in a state."
    return join_case("join-momentum", about, folder, joiner, 8, 10, {path: True})


def _nesterov() -> Case:
    folder = begin()
    joiner = _joiner(folder, SMALL, LocalSettings(rate=0.1, momentum=0.7, nesterov=True))
    state = _begin_state(SMALL, 0, momenta=False)
    folder.start(0, state.write())
    after = _exchange(folder, joiner, 0, state, (FIRST, SECOND))
    _exchange(folder, joiner, 1, after, (SECOND, THIRD))
    about = "Nesterov momentum from the start of a run, whose first step has no momenta."
    return join_case("join-nesterov", about, folder, joiner, 0, 2, {})


def _senders() -> Case:
    folder = begin()
    joiner = _joiner(folder, SMALL, LocalSettings(rate=1.0, divide="senders"))
    state = _begin_state(SMALL, 0, momenta=False)
    folder.start(0, state.write())
    after = _exchange(folder, joiner, 0, state, (FIRST, SECOND, THIRD), (1.0, 0.3, 0.7))
    _exchange(folder, joiner, 1, after, (FIRST, SECOND, THIRD), (2.0, 2.0, 0.0))
    about = "Means over the members that store an element; the divisor is at least the largest weight."
    return join_case("join-senders", about, folder, joiner, 0, 2, {})


def _choice() -> Case:
    folder = begin(2, "alice", "bob", "reader")
    joiner = _joiner(folder, SMALL, LocalSettings(rate=0.5))
    state = _begin_state(SMALL, 4, momenta=False)
    valid = {folder.publish(4, "alice", state.write()): True}
    after = _exchange(folder, joiner, 4, state, (FIRST, SECOND))
    valid[folder.publish(5, "bob", after.write())] = True
    other = replace(after, exchanges=9)
    valid[folder.publish(5, "alice", other.write())] = True
    end = _exchange(folder, joiner, 5, after, (SECOND, THIRD))
    forged = Envelope(STATE, folder.run, 5, "bob", after.write() + b"\0")
    for made, data in (
        (forged, forged.pack(folder.keys["bob"])),
        (replace(forged, body=state.write(), number=6), None),
        (replace(forged, body=after.write()[:8]), forged.pack(folder.keys["bob"])),
        (replace(forged, body=patch(after.write(), 8, "B", 2)), None),
        (replace(forged, body=patch(after.write(), 0, "Q", 2**62)), None),
    ):
        path = f"states/{5:012d}.bob.{made.digest.hex()}"
        folder.objects[path] = made.pack(folder.keys["bob"]) if data is None else data
        valid[path] = False
    unsigned = Envelope(STATE, folder.run, 5, "alice", replace(after, exchanges=3).write())
    path = f"states/{5:012d}.alice.{unsigned.digest.hex()}"
    folder.objects[path] = unsigned.pack(folder.keys["bob"])
    valid[path] = False
    valid[folder.publish(6, "alice", replace(end, exchanges=77).write())] = True
    about = "The newest state that the members of its round have, among others: with keys."
    return join_case("join-choice", about, folder, joiner, 5, 6, valid)


def _open() -> Case:
    folder = begin()
    joiner = _joiner(folder, SMALL, LocalSettings(rate=0.5))
    before = _begin_state(SMALL, 6, momenta=False)
    state = _exchange(folder, joiner, 6, before, (FIRST, SECOND))
    paths = [folder.publish(number, "alice", state.write()) for number in (7, 9)]
    about = "Only states of open rounds are there, of which the first one counts."
    return join_case("join-open", about, folder, joiner, 7, 7, dict.fromkeys(paths, True))


def _starts() -> Case:
    folder = begin(max_bytes=2048)
    joiner = _joiner(folder, SMALL, LocalSettings())
    state = _begin_state(SMALL, 0, momenta=False)
    body = state.write()
    right = Envelope(STATE, folder.run, 0, "alice", body)
    most = 2048 + 200
    for slot, data in enumerate(
        (
            b"garbage",
            right.pack()[:-1],
            replace(right, number=1).pack(),
            replace(right, kind=2).pack(),
            replace(right, body=bytes(most - 136 - 5 + 1)).pack(),
        )
    ):
        folder.objects[f"start.{slot:02d}"] = data
    folder.objects["start.05"] = replace(right, reserved=1).pack()
    folder.objects["start.06"] = replace(right, body=replace(state, exchanges=1).write()).pack()
    about = "Five slots of the start with garbage, one of which is too long; the first valid one counts."
    return join_case("join-start", about, folder, joiner, 0, 0, {})


def _overflow() -> Case:
    folder = begin()
    joiner = _joiner(folder, SMALL, LocalSettings(rate=2.0, momentum=0.5))
    state = _begin_state(SMALL, 0, momenta=False)
    large = struct.pack("<3f", 3e38, 1.0, 2.0)
    state = replace(state, parameters=(state.parameters[0], large))
    folder.start(0, state.write())
    rows: Rows = [{0: 1.0}, {0: -1e38}]
    after = _exchange(folder, joiner, 0, state, (rows, rows))
    assert after == state
    _exchange(folder, joiner, 1, after, (FIRST, SECOND))
    about = "In round 0, a parameter would overflow: the round counts for nobody."
    return join_case("join-overflow", about, folder, joiner, 0, 2, {})
