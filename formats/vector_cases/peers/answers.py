"""Answers of the peer of these modules to the vectors of rounds, headers and scheme strings."""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

from formats.conformance import parse_hex
from formats.vector_cases.peers.canonical import format_scheme
from formats.vector_cases.peers.header import (
    ALLREDUCE,
    MEAN,
    Header,
    Spec,
    add_weighted,
    bytes_of,
    decide,
    find_factors,
    pack_signature,
    short_hash,
)
from formats.vector_cases.peers.rounds import (
    TAKES,
    Call,
    Outcome,
    Run,
    View,
    find_next,
    parse_scheme,
    read_round,
    sum_members,
)
from formats.vector_cases.peers.states import Joiner, State
from formats.vector_cases.peers.texts import LocalSettings, compressor_text, mapping_text

Given = Mapping[str, Any]
"""Fields of a vector, or of a row in it, without the answers."""
STAGE = r"[a-z0-9-]+(?:\([^)]*\))?"
SCHEME = re.compile(rf"(?:{STAGE} \| )+{STAGE}")
"""A scheme in a hashed string."""


def answer_rounds(given: Given) -> dict[str, Any]:
    """Return what a peer finds in the folder of a run."""
    objects = {path: b64decode(data) for path, data in given["objects"].items()}
    keys = {name: bytes.fromhex(key["public"]) for name, key in given.get("keys", {}).items()}
    view = View.of(Run(given["run"], objects, keys))
    if "local_updates" in given:
        specs = _read_specs(given["tensors"])
        return describe_join(Joiner(view, specs, given["scheme"], LocalSettings(**given["local_updates"])))[0]
    if "call" not in given:
        return {"slots": dict(view.slots), "begins": find_next(view)}
    asked = given["call"]
    call = Call(
        asked["operation"],
        asked["reduction"],
        asked["scheme"],
        _read_specs(asked["tensors"]),
        bytes.fromhex(asked["state"]),
        tuple(map(parse_scheme, SCHEME.findall(asked["scheme"]))),
    )
    return describe_round(view, call, read_round(view, call, given["round"]))


def describe_round(view: View, call: Call, outcome: Outcome) -> dict[str, Any]:
    """Return the answers about a round."""
    found: dict[str, Any] = {
        "slots": {**view.slots, **outcome.log.slots},
        "verdicts": outcome.verdicts,
        "decision": outcome.decision,
        "members": [one.name for one in outcome.members],
    }
    if outcome.decision == TAKES and call.operation == ALLREDUCE:
        results = sum_members(outcome.members, call)
        found["result"] = None if results is None else [data.hex() for data in results]
    return found


def describe_join(joiner: Joiner) -> tuple[dict[str, Any], dict[str, State | None]]:
    """Return the answers of a peer of local updates that joins, and the published states."""
    first, state, following, after = joiner.join()
    states = joiner.find_states()
    found = {
        "slots": {**joiner.view.slots, **joiner.view.find_start()[0]},
        "states": {path: None if one is None else one.digest.hex() for path, one in states.items()},
        "texts": {str(n): joiner.call(n, state).scheme for n in (first, following)},
        "first": {"round": first, **state.to_json()},
        "next": {"round": following, **after.to_json()},
    }
    return found, states


def answer_agreement(given: Given) -> dict[str, Any]:
    """Return the decision on a table of headers, or the answers to rows."""
    if "table" in given:
        return decide([Header.read(parse_hex(one)) for one in given["table"]])
    rows = {"headers": _answer_header, "weights": _answer_weights, "sums": _answer_sum}
    return {name: [answer(row) for row in given[name]] for name, answer in rows.items() if name in given}


def _answer_header(row: Given) -> dict[str, Any]:
    specs = _read_specs(row["tensors"])
    fields = Header.read(parse_hex(row["hex"])).to_json()
    return {"signed": pack_signature(specs).hex() if specs else "", "fields": fields}


def _answer_weights(row: Given) -> dict[str, Any]:
    mean = row["reduction"] == MEAN
    found = find_factors(_read_numbers(row["weights"]), mean=mean)
    if found is None:
        return {"factors": None, "divisor": None}
    return {"factors": _write_numbers(found[0]), "divisor": _write_numbers([found[1]])[0] if mean else None}


def _answer_sum(row: Given) -> dict[str, Any]:
    found = find_factors(_read_numbers(row["weights"]), mean=row["reduction"] == MEAN)
    assert found is not None
    values = [bytes.fromhex(data) for data in row["values"]]
    size = {"float64": 8, "float32": 4}.get(row["dtype"], 2)
    spec = Spec(None, row["dtype"], (len(values[0]) // size,))
    stored = [(list(range(spec.size)), data) for data in values]
    return {"result": bytes_of(add_weighted(spec, stored, *found), spec.dtype).hex()}


def answer_scheme(given: Given) -> dict[str, Any]:
    """Return the hashed string of each row, with its hash."""
    texts = map(_format_row, given["strings"])
    return {"strings": [{"text": x, "hash": f"{short_hash(x.encode()):016x}"} for x in texts]}


def _format_row(row: Given) -> str:
    given = dict(row)
    if "given" in given:
        return format_scheme(given["given"])
    local, sparse, scale = (
        given.pop("local_updates", None),
        given.pop("sparse", False),
        given.pop("loss_scale", None),
    )
    schemes = given.pop("schemes")
    if "step" in given:
        text = compressor_text(schemes, **given)
    else:
        text = schemes if isinstance(schemes, str) else mapping_text(schemes)
    text += "; sparse results" if sparse else ""
    text += "" if scale is None else f"; loss scale {float(scale)!r}"
    return text + (LocalSettings(**local).text if local else "")


def _read_specs(rows: Sequence[Given]) -> tuple[Spec, ...]:
    return tuple(Spec(row.get("name"), row["dtype"], tuple(row["shape"])) for row in rows)


def _read_numbers(hexes: Sequence[str]) -> list[float]:
    return [struct.unpack("<d", bytes.fromhex(one))[0] for one in hexes]


def _write_numbers(numbers: Sequence[float]) -> list[str]:
    return [struct.pack("<d", x).hex() for x in numbers]
