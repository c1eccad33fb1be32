"""Cases of rounds, of headers and of schemes: their fields (vectors/README.md), and how they are checked."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from formats.vector_cases.case import Case
from formats.vector_cases.peers.folder import Folder
from formats.vector_cases.peers.header import ALLREDUCE
from formats.vector_cases.peers.rounds import TAKES, Call, find_next, read_round, sum_members
from formats.vector_cases.peers.states import Joiner


def round_case(
    id: str,
    about: str,
    folder: Folder,
    call: Call,
    number: int,
    decision: str,
    members: Sequence[str] = (),
    verdicts: Mapping[bytes, str | None] | None = None,
    *,
    counts: bool = True,
) -> Case:
    """Build the case of a round.

    Args:
        id, about: of the vector.
        folder: of the run.
        call: of the peer that reads.
        number: of the round.
        decision, members: that the page prescribes.
        verdicts: by digest, on all contributions that are not good; None if one has not arrived.
        counts: whether the sum is finite, for a round of an all-reduce with members.

    Raises:
        AssertionError: if the peer of these modules sees another decision, or other verdicts.
    """
    view = folder.view
    outcome = read_round(view, call, number)
    found = outcome.decision, [one.name for one in outcome.members]
    if found != (decision, list(members)):
        raise AssertionError(f"{id} has decision {found}")
    seen = {bytes.fromhex(path[-64:]): x for path, x in outcome.verdicts.items() if x != "ok"}
    if seen != (verdicts or {}):
        names = {digest.hex()[:8]: x for digest, x in seen.items()}
        raise AssertionError(f"{id} has the verdicts {names}")
    fields = _fields(id, about, folder) | {
        "round": number,
        "call": {
            "operation": call.operation,
            "reduction": call.reduction,
            "scheme": call.scheme,
            "tensors": [spec.to_json() for spec in call.specs],
            "state": call.state.hex(),
        },
        "slots": {**view.slots, **outcome.log.slots},
        "verdicts": outcome.verdicts,
        "decision": decision,
        "members": list(members),
    }
    if decision == TAKES and call.operation == ALLREDUCE:
        results = sum_members(outcome.members, call)
        if (results is not None) != counts:
            raise AssertionError(f"{id} has the results {results}")
        fields["result"] = None if results is None else [data.hex() for data in results]
    return Case(f"rounds-{id}", fields)


def join_case(
    id: str,
    about: str,
    folder: Folder,
    joiner: Joiner,
    first: int,
    following: int,
    states: Mapping[str, bool],
) -> Case:
    """Build the case of a peer of local updates that joins a run.

    Args:
        id, about: of the vector.
        folder: of the run.
        joiner: the peer.
        first, following: the round of the state that it takes, and its next one, by the page.
        states: whether a published state is valid, by its path.

    Raises:
        AssertionError: if the peer of these modules goes another way.
    """
    begun, state, number, after = joiner.join()
    if (begun, number) != (first, following):
        raise AssertionError(f"{id} begins at {begun}, and goes on with {number}")
    found = joiner.find_states()
    if {path: one is not None for path, one in found.items()} != dict(states):
        raise AssertionError(f"{id} has the states {found}")
    starts = folder.view.find_start()[0]
    fields = _fields(id, about, folder) | {
        "scheme": joiner.scheme,
        "local_updates": joiner.settings.to_json(),
        "tensors": [spec.to_json() for spec in joiner.specs],
        "slots": {**folder.view.slots, **starts},
        "states": {path: None if one is None else one.digest.hex() for path, one in found.items()},
        "texts": {str(n): joiner.call(n, state).scheme for n in (first, following)},
        "first": {"round": first, **state.to_json()},
        "next": {"round": following, **after.to_json()},
    }
    return Case(f"rounds-{id}", fields)


def begin_case(id: str, about: str, folder: Folder, following: int) -> Case:
    """Build the case of a peer without a state that looks for its first round; raise AssertionError."""
    if find_next(folder.view) != following:
        raise AssertionError(f"{id} begins at {find_next(folder.view)}")
    slots = dict(folder.view.slots)
    return Case(f"rounds-{id}", _fields(id, about, folder) | {"slots": slots, "begins": following})


def _fields(id: str, about: str, folder: Folder) -> dict[str, Any]:
    keys = {
        name: {"private": key.private.hex(), "public": key.public.hex()} for name, key in folder.keys.items()
    }
    return {
        "id": f"rounds-{id}",
        "about": about,
        "run": folder.name,
        "rules": folder.rules.to_json(),
        **({"keys": keys} if keys else {}),
        "objects": {path: b64encode(folder.objects[path]).decode() for path in sorted(folder.objects)},
    }
