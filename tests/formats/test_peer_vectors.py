"""Vectors of rounds, headers and scheme strings: the library agrees with a peer from the pages alone."""

from __future__ import annotations

import json
import struct
import warnings
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.agreement.errors_from_headers import error_for, protocol_error
from collectives.agreement.header import Header, headers_match, is_compiling
from collectives.errors import CollectiveError, Refused
from collectives.exchange.encoding import SPARSE, get_text
from collectives.exchange.specs import describe
from collectives.local_updates.outer import OuterSettings
from collectives.local_updates.shared_state import hash_state, unpack_state
from collectives.store.contribution import NO_STATE, Terms
from collectives.store.envelope import hash_run
from collectives.store.layout import parse_contribution
from collectives.store.log import Log
from collectives.store.rounds import Lost, OtherTerms
from collectives.store.sums import accept_any, make_check
from collectives.torch.scaling import LossScale
from collectives.transport.weights import Weights
from formats import make_vectors
from formats.vector_cases import agreement, rounds, rounds_logs, rounds_refused, rounds_states, schemes
from wirecodec.settings.schedule import parse_schedule

pytest.importorskip("fsspec")


def load(folder: str) -> list[dict[str, Any]]:
    """Return the vectors of a folder."""
    return [json.loads(path.read_text()) for path in sorted((make_vectors.VECTORS / folder).glob("*.json"))]


def of_field(folder: str, field: str) -> list[Any]:
    """Return the vectors of a folder that have a field, as parameters of a test."""
    return [pytest.param(one, id=one["id"]) for one in load(folder) if field in one]


def to_bytes(text: str | list[str]) -> bytes:
    return bytes.fromhex(text if isinstance(text, str) else "".join(text))


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


# ---- rounds ----


def open_run(vector: Mapping[str, Any], folder: Path) -> co.StoreComm:
    """Write the objects of a vector into a folder, and open the run as a peer that only reads."""
    for path, data in vector["objects"].items():
        full = folder / vector["run"] / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(b64decode(data))
    keys = {
        name: {kind: to_bytes(x) for kind, x in one.items()} for name, one in vector.get("keys", {}).items()
    }
    given: dict[str, Any] = dict(vector["rules"])
    if keys:
        given |= {
            "key": keys["reader"]["private"],
            "keys": {name: one["public"] for name, one in keys.items()},
        }
    times: dict[str, Any] = {"deadline": 0.02, "poll": 0.005, "timeout": 0.1, "resume": True}
    return co.StoreComm(str(folder), vector["run"], "reader", **given, **times)


def specs_of(tensors: list[dict[str, Any]]) -> dict[str, tuple[tuple[int, ...], Any]]:
    return {one.get("name", "0"): (tuple(one["shape"]), dtype_of(one["dtype"])) for one in tensors}


def get_schemes(text: str) -> Any:
    """Return the schemes of the rounds' vectors, given their hashed string."""
    if text.startswith(("compressor", "'b'")):
        schemes = {"b": "all | bitmap | raw", "*": "topk(0.5) | rice | raw"}
        return wc.Compressor(schemes) if text.startswith("compressor") else schemes
    return text


def describe_call(vector: Mapping[str, Any], rules: Any) -> tuple[Terms, Any]:
    """Return the terms and the check of a call, as the library makes them."""
    call = vector["call"]
    header = Header(operation=call["operation"], reduction=call["reduction"])
    if not call["tensors"]:
        return Terms(header), accept_any
    specs, schemes = specs_of(call["tensors"]), get_schemes(call["scheme"])
    if isinstance(schemes, wc.Compressor):
        schemes.set_step(vector["round"])
    named = "name" in call["tensors"][0]
    operand = describe(specs, bare=not named, scheme=get_text(schemes))
    header = header._replace(
        algorithm=1,
        dtype=operand.dtype,
        elements=operand.elements,
        signature=operand.signature,
        scheme=operand.scheme,
    )
    assert call["state"] == NO_STATE.hex()
    return Terms(header), make_check(specs, schemes, rules, named=named)


def read_slots(comm: co.StoreComm, vector: Mapping[str, Any], number: int) -> dict[str, str | None]:
    """Return what the library finds in each slot of a log, up to the decision."""
    log = Log(comm.open_round(number, Terms(Header()), accept_any).place, grace=0)
    found: dict[str, str | None] = {}
    for path in sorted(path for path in vector["slots"] if "members" in path):
        count = len(log.proposals)
        before = log.pending, log.taken, count
        try:
            log._note(b64decode(vector["objects"][path]))
        except Refused:
            found[path] = None
            continue
        after = log.pending, log.taken, len(log.proposals)
        is_proposal = after[2] > count or before == after
        found[path] = "taken" if log.taken is not None else "proposal" if is_proposal else "dropped"
    return found


@pytest.mark.parametrize("vector", of_field("rounds", "round"))
def test_rounds(vector: dict[str, Any], tmp_path: Path) -> None:
    """Slots, verdicts, members and sums are those of the vector."""
    comm, number = open_run(vector, tmp_path), vector["round"]
    terms, check = describe_call(vector, comm.rules)
    comm.move_to(number)
    one = comm.open_round(number, terms, check)
    logged = {path: kind for path, kind in vector["slots"].items() if "members" in path}
    assert read_slots(comm, vector, number) == logged
    settings = next(path for path, kind in vector["slots"].items() if kind == "settings")
    body = b64decode(vector["objects"][settings])
    assert one.place.run == hash_run(vector["run"], body[40 + body[6] : -96])
    verdicts = {}
    for path in vector["verdicts"]:
        named = parse_contribution(path.rpartition("/")[2])
        assert named is not None
        judged = one.arrivals.judge(named)
        verdicts[path] = None if judged is None else judged.code or "ok"
    assert verdicts == vector["verdicts"]
    check_decision(comm, vector, terms, check)


def check_decision(comm: co.StoreComm, vector: Mapping[str, Any], terms: Terms, check: Any) -> None:
    """Read the decision of a round, and take its result as a peer that comes late."""
    number, decision = vector["round"], vector["decision"]
    errors = {"lost": Lost, "other-terms": OtherTerms}
    if decision in errors:
        with pytest.raises(errors[decision]):
            comm.read_round(terms, check, number=number)
        return
    outcome = comm.read_round(terms, check, number=number)
    if decision == "open":
        assert outcome is None
        return
    assert outcome is not None
    assert list(outcome.names) == vector["members"]
    assert decision == ("members" if outcome.names else "void")
    call = vector["call"]
    zeros = {name: np.zeros(*spec) for name, spec in specs_of(call["tensors"]).items()}
    given: Any = zeros if zeros and "name" in call["tensors"][0] else zeros.get("0")
    op: Any = "sum" if call["reduction"] == 1 else "mean"
    schemes = get_schemes(call["scheme"])
    if decision == "void":
        with pytest.raises(CollectiveError, match="is void"):
            co.allreduce(comm, given, schemes, op=op)
    elif call["operation"] == 1:
        found = co.allgather_bytes(comm, b"")
        assert [x.tobytes() for x in found] == [x.payload.tobytes() for x in outcome.contributions]
    elif call["operation"] == 2:
        assert len(co.allgather(comm, given, schemes)) == len(vector["members"])
    elif vector["result"] is None:
        with pytest.raises(CollectiveError, match=r"not finite|weight 0"):
            co.allreduce(comm, given, schemes, op=op)
    else:
        result = co.allreduce(comm, given, schemes, op=op)
        arrays = [result] if given is not zeros else [result[spec["name"]] for spec in call["tensors"]]
        assert [x.tobytes() for x in arrays] == [to_bytes(x) for x in vector["result"]]
    assert comm.round == number + 1


@pytest.mark.parametrize("vector", of_field("rounds", "begins"))
def test_first_rounds(vector: dict[str, Any], tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert open_run(vector, tmp_path).locate() == vector["begins"]


def read_states(comm: co.StoreComm, like: Any) -> Iterator[tuple[str, str]]:
    """Yield round and digest of the published states that the library accepts."""
    for number, body in comm.states.read_newest(10**6, 10**12):
        with suppress(Refused):
            yield f"{number:012d}", hash_state(unpack_state(body, like)).hex()


@pytest.mark.parametrize("vector", of_field("rounds", "next"))
def test_states(vector: dict[str, Any], tmp_path: Path) -> None:
    """A peer of local updates that joins has the digests and the bits of the vector."""
    comm = open_run(vector, tmp_path)
    start = {one["name"]: np.zeros(one["shape"], dtype_of(one["dtype"])) for one in vector["tensors"]}
    compressor = wc.Compressor(vector["scheme"])
    local = co.LocalUpdates(None, start, compressor, comm, **vector["local_updates"])
    rounds = local._link.find_rounds(local._outer)
    valid = sorted((path[7:19], digest) for path, digest in vector["states"].items() if digest is not None)
    assert sorted(read_states(comm, local._anchor.state)) == valid
    for when in ("first", "next"):
        number = vector[when]["round"]
        compressor.set_step(number)
        assert get_text(compressor) + rounds._unit == vector["texts"][str(number)]
    local.synchronize()
    state, wanted = local._anchor.state, vector["next"]
    assert (state.round, comm.round) == (wanted["exchanges"], wanted["round"])
    for one in wanted["tensors"]:
        assert state.parameters[one["name"]].tobytes() == to_bytes(one["parameter"]), one["name"]
        assert start[one["name"]].tobytes() == to_bytes(one["parameter"]), one["name"]
        if "momentum" in one:
            assert state.momenta[one["name"]].tobytes() == to_bytes(one["momentum"]), one["name"]
    assert hash_state(state).hex() == wanted["digest"]


# ---- headers ----


@pytest.mark.parametrize("row", [row for one in load("agreement") for row in one.get("headers", ())])
def test_headers(row: dict[str, Any]) -> None:
    fields = dict(row["fields"])
    fields |= {name: int(x) for name, x in fields.items() if name not in ("magic", "weight")}
    fields |= {
        "magic": to_bytes(fields["magic"]),
        "weight": struct.unpack("<d", to_bytes(fields["weight"]))[0],
    }
    assert Header(**fields).pack() == to_bytes(row["hex"])
    assert Header.unpack(to_bytes(row["hex"])) == Header(**fields)
    if row["tensors"]:
        named = "name" in row["tensors"][0]
        found = describe(specs_of(row["tensors"]), bare=not named, scheme=row["scheme"])
        names = "dtype", "elements", "signature", "scheme"
        assert {name: getattr(found, name) for name in names} == {name: fields[name] for name in names}


REASONS = {"elements": "shape", "flags": "denormals"}
"""Reasons of the library's errors by the first field of their set, if they have other names."""


@pytest.mark.parametrize("vector", of_field("agreement", "table"))
def test_tables(vector: dict[str, Any]) -> None:
    table = [Header.unpack(to_bytes(one)) for one in vector["table"]]
    assert headers_match(table) == (vector["decision"] == "agreed")
    assert is_compiling(table) == (vector["decision"] == "compiling")
    error = protocol_error(table)
    assert (error is not None) == (vector["decision"] == "unreadable")
    if vector["decision"] == "refused":
        error = error_for(table, [""] * len(table))
        field = vector["field"]
        assert field == "status" or error.reason == REASONS.get(field, field)
    assert error is None or list(error.ranks) == vector["ranks"]


def numbers_of(hexes: list[str]) -> list[float]:
    return [struct.unpack("<d", bytes.fromhex(one))[0] for one in hexes]


@pytest.mark.parametrize("row", [row for one in load("agreement") for row in one.get("weights", ())])
def test_weights(row: dict[str, Any]) -> None:
    weights, mean = numbers_of(row["weights"]), row["reduction"] == 2
    found = Weights.of(weights, mean=mean)
    if row["factors"] is None:
        assert found is None
        return
    assert found is not None
    assert [found.of_rank(rank) for rank in range(len(weights))] == numbers_of(row["factors"])
    assert found.divisor == (numbers_of([row["divisor"]])[0] if mean else 1)


@pytest.mark.parametrize("row", [row for one in load("agreement") for row in one.get("sums", ())])
def test_sums(row: dict[str, Any]) -> None:
    weights = numbers_of(row["weights"])
    op: Any = "mean" if row["reduction"] == 2 else "sum"
    values = [np.frombuffer(to_bytes(one), dtype_of(row["dtype"])) for one in row["values"]]

    def run(comm: Any) -> Any:
        scheme, rank = "all | raw-index | raw", comm.rank
        return co.allreduce(comm, values[rank], scheme, op=op, weight=weights[rank])

    assert {x.tobytes() for x in co.simulate(len(values), run)} == {to_bytes(row["result"])}


# ---- schemes ----


def build_key(key: Any) -> Any:
    """Return a glob, or a Rule of the fields in a vector."""
    if isinstance(key, str):
        return key
    fields: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in key.items()}
    return wc.Rule(**fields)


def build_keyed(given: Any, build: Callable[[Any], Any] = lambda x: x) -> Any:
    """Return a mapping for pairs of keys and values, or one value."""
    return {build_key(key): build(x) for key, x in given} if isinstance(given, list) else build(given)


def build_feedback(given: Any) -> Any:
    if given is None:
        return None
    ((name, arguments),) = given.items()
    return getattr(wc, name)(**arguments)


def build_compressor(row: Mapping[str, Any]) -> wc.Compressor:
    given = {name: row[name] for name in ("clip", "scope", "bytes_per_step") if name in row}
    if "feedback" in row:
        given["feedback"] = build_keyed(row["feedback"], build_feedback)
    if "weights" in row:
        given["weights"] = build_keyed(row["weights"])
    if "schedule" in row:
        is_follow = row["schedule"].startswith("follow")
        given["schedule"] = wc.Follow(lambda: 0.1) if is_follow else parse_schedule(row["schedule"])
    found = wc.Compressor(build_keyed(row["schemes"]), **given)
    found.set_step(row["step"])
    return found


@pytest.mark.parametrize(
    "row", [row for one in load("scheme") for row in one["strings"]], ids=lambda x: x["text"]
)
def test_strings(row: dict[str, Any]) -> None:
    """Hashed strings are those that the library makes of the settings."""
    if "given" in row:
        text = str(wc.Scheme.parse(row["given"]))
    elif "step" in row:
        text = get_text(build_compressor(row))
    else:
        text = get_text(build_keyed(row["schemes"]))
    if "local_updates" in row:
        one = row["local_updates"]
        text += f"; local updates {OuterSettings(**one)}"
    if "loss_scale" in row:
        text += LossScale.of(Scaler(row["loss_scale"])).unit
    text += SPARSE * row.get("sparse", False)
    assert text == row["text"]
    assert f"{describe({}, bare=False, scheme=text).scheme:016x}" == row["hash"]


class Scaler:
    """Scaler of losses like torch's, before a step."""

    def __init__(self, scale: float) -> None:
        self.get_scale = lambda: scale
        self._per_optimizer_states: dict[int, Any] = {}

    def is_enabled(self) -> bool:
        return True


# ---- files ----


def test_the_files_are_what_the_cases_make() -> None:
    """All of them, and nothing else; the cases import nothing but the reference."""
    made = {}
    for module in (agreement, rounds, rounds_logs, rounds_refused, rounds_states, schemes):
        for case in module.cases():
            folder = case.id.partition("-")[0]
            made[f"{folder}/{case.id}.json"] = make_vectors.render(case)
    present = {
        path.relative_to(make_vectors.VECTORS).as_posix(): path.read_text()
        for folder in make_vectors.PEERS
        for path in (make_vectors.VECTORS / folder).glob("*")
    }
    assert made == present
    assert sum("round" in json.loads(text) for name, text in made.items() if name.startswith("rounds")) >= 10
