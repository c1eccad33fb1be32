"""Headers of ranks: fields, decisions on tables, weights and sums (spec/agreement.md)."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from formats.vector_cases.case import Case
from formats.vector_cases.peers.header import (
    COMPILING,
    GATHER_BYTES,
    MEAN,
    NO_DETAIL,
    NONE,
    REFUSING,
    SUM,
    Header,
    Spec,
    add_weighted,
    bytes_of,
    decide,
    describe,
    find_factors,
    is_readable,
    pack_signature,
)

SCHEME = "topk(0.01) | rice | raw"
SPECS = (Spec("b", "float32", (4,)), Spec("w", "float32", (2, 3)))
RIGHT = describe(SPECS, SCHEME, reduction=MEAN, sequence=7, payload_len=96, text_len=40)


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield _headers()
    yield from _tables()
    yield _weights()
    yield _sums()


def _headers() -> Case:
    rows = []
    for specs, scheme, fields in (
        ((Spec(None, "float32", (1000,)),), SCHEME, {"sequence": 7, "algorithm": 0, "payload_len": 4096}),
        ((Spec(None, "bfloat16", ()),), SCHEME, {"flags": 0xFFFF, "detail": 0}),
        (SPECS, SCHEME, {"weight": 0.1, "sequence": 2**64 - 1}),
        ((Spec("w", "float64", (0, 5)), Spec("", "float16", (2,))), SCHEME, {"text_len": 65_536}),
        ((Spec("é", "float32", (1,)), Spec("z", "float32", (2**40,))), SCHEME, {"reduction": MEAN}),
        ((Spec("x", "float32", (7,)),), SCHEME + "; sparse results", {}),
        ((), "", {"operation": GATHER_BYTES, "reduction": NONE, "algorithm": 0}),
    ):
        given: dict[str, Any] = fields
        header = describe(specs, scheme, **given)
        rows.append(
            {
                "tensors": [spec.to_json() for spec in specs],
                "signed": pack_signature(specs).hex() if specs else "",
                "scheme": scheme,
                "fields": header.to_json(),
                "hex": header.pack().hex(),
            }
        )
    about = "Headers with their fields; `signed` is what the signature hashes."
    return Case("agreement-headers", {"id": "agreement-headers", "about": about, "headers": rows})


def _tables() -> Iterator[Case]:
    second = replace(RIGHT, weight=0.0, payload_len=8, text_len=0, detail=3, flags=0b1011)
    compiling = replace(second, status=COMPILING, payload_len=0, detail=NO_DETAIL)
    last = 2**64 - 1
    for id, about, decision, table in (
        ("agreed", "Fields that may differ do.", "agreed", [RIGHT, second]),
        ("agreed-reserved", "Reserved flags differ.", "agreed", [RIGHT, replace(RIGHT, flags=0xFFF0)]),
        ("agreed-flush", "All ranks flush.", "agreed", [replace(RIGHT, flags=4), replace(second, flags=5)]),
        ("agreed-last", "The next number is 0.", "agreed", [replace(RIGHT, sequence=last)] * 2),
        ("compiling", "A rank compiles.", "compiling", [RIGHT, compiling, second]),
        ("compiling-all", "All ranks compile.", "compiling", [compiling, compiling]),
        (
            "compiling-other",
            "It has another scheme.",
            "refused",
            [RIGHT, replace(compiling, scheme=1), RIGHT],
        ),
        ("compiling-failed", "Another one failed.", "refused", [compiling, replace(RIGHT, status=3)]),
        ("magic", "A magic of a container.", "unreadable", [RIGHT, replace(RIGHT, magic=b"\xf7WC\x1a")]),
        (
            "version",
            "Versions 2 and 4; the largest number is one of theirs.",
            "unreadable",
            [replace(RIGHT, version=2, sequence=90), RIGHT, replace(RIGHT, version=4)],
        ),
        ("version-all", "All have version 2.", "unreadable", [replace(RIGHT, version=2)] * 2),
        ("text", "A text of 65,537 bytes.", "unreadable", [replace(RIGHT, text_len=65_537), RIGHT]),
        ("text-all", "Two such texts.", "unreadable", [replace(RIGHT, text_len=65_537)] * 2),
        ("text-most", "Texts of 65,536 bytes.", "agreed", [replace(RIGHT, text_len=65_536)] * 2),
        ("weight-minus", "A weight of -1.", "unreadable", [RIGHT, replace(RIGHT, weight=-1.0)]),
        ("weight-infinite", "An infinite weight.", "unreadable", [RIGHT, replace(RIGHT, weight=math.inf)]),
        (
            "weight-nan",
            "NaN, and a failed rank.",
            "unreadable",
            [replace(RIGHT, status=1), replace(RIGHT, weight=math.nan)],
        ),
        (
            "weight-zeros",
            "The weights 0 and -0.",
            "agreed",
            [replace(RIGHT, weight=0.0), replace(RIGHT, weight=-0.0)],
        ),
        (
            "status",
            "Statuses are looked at before differences.",
            "refused",
            [replace(RIGHT, status=1), replace(RIGHT, sequence=9), replace(RIGHT, status=2, detail=5)],
        ),
        (
            "status-4",
            "Rank 2 cannot decode what rank 0 sent.",
            "refused",
            [RIGHT, RIGHT, replace(RIGHT, status=REFUSING, detail=0)],
        ),
        (
            "status-4-nobody",
            "There is no rank 3.",
            "refused",
            [RIGHT, RIGHT, replace(RIGHT, status=REFUSING, detail=3)],
        ),
        ("status-unknown", "A status without a meaning.", "refused", [RIGHT, replace(RIGHT, status=200)]),
        (
            "sequence",
            "Numbers differ, and schemes, too.",
            "refused",
            [RIGHT, replace(RIGHT, sequence=12, scheme=1), RIGHT],
        ),
        (
            "sequence-last",
            "The next number is 0.",
            "refused",
            [RIGHT, replace(RIGHT, sequence=last)],
        ),
        ("operation", "Another operation.", "refused", [RIGHT, replace(RIGHT, operation=2)]),
        ("reduction", "Another reduction.", "refused", [replace(RIGHT, reduction=SUM), RIGHT, RIGHT]),
        ("algorithm", "Three algorithms; two ranks agree.", "refused", _vary("algorithm", 0, 1, 2, 1)),
        ("dtype", "Types, before names.", "refused", [RIGHT, replace(RIGHT, dtype=4, signature=1)]),
        ("elements", "Numbers of elements.", "refused", [RIGHT, replace(RIGHT, elements=11)]),
        ("signature", "Names or shapes.", "refused", _vary("signature", 1, 2, 2, 1)),
        ("scheme", "Schemes, before flags.", "refused", [RIGHT, replace(RIGHT, scheme=2, flags=4), RIGHT]),
        (
            "flags",
            "Most ranks flush denormal numbers; those that do not are right.",
            "refused",
            _vary("flags", 4, 0, 4),
        ),
    ):
        yield _table(f"agreement-{id}", about, decision, table)


def _vary(field: str, *values: int) -> list[Header]:
    given: list[dict[str, Any]] = [{field: value} for value in values]
    return [replace(RIGHT, **one) for one in given]


def _table(id: str, about: str, decision: str, table: Sequence[Header]) -> Case:
    found = decide(table)
    if found["decision"] != decision or (decision == "agreed") != (
        all(map(is_readable, table)) and len({h.status for h in table} | {0}) == 1 and "field" not in found
    ):
        raise AssertionError(f"{id} is {found}")
    fields = {"id": id, "about": about, "table": [header.pack().hex() for header in table]}
    return Case(id, fields | found)


def _hex(*numbers: float) -> list[str]:
    return [struct.pack("<d", x).hex() for x in numbers]


def _weights() -> Case:
    rows = []
    for weights in (
        (1.0, 1.0),
        (2.0, 2.0, 2.0),
        (0.0, 0.3, 0.3),
        (0.0, -0.0),
        (1.0, 2.0),
        (0.1, 0.2, 0.3),
        (3.0, 0.0, 5e-324),
        (1.7976931348623157e308, 1.0),
        (2.0**-1074, 2.0**-1073),
        (0.5, 0.5000000000000001, 0.0),
    ):
        for mean in (False, True):
            found = find_factors(weights, mean=mean)
            rows.append(
                {
                    "reduction": MEAN if mean else SUM,
                    "weights": _hex(*weights),
                    "factors": None if found is None else _hex(*found[0]),
                    "divisor": None if found is None or not mean else _hex(found[1])[0],
                }
            )
    about = "Weights of ranks, their factors and the divisor, as binary64; null if all weights are 0."
    return Case("agreement-weights", {"id": "agreement-weights", "about": about, "weights": rows})


def _sums() -> Case:
    rows = []
    values = {
        "float32": [[1e8, 0.1, 1e38, -0.0], [1.0, 0.2, 1e38, -0.0], [-1e8, 0.3, -1e38, -0.0]],
        "float64": [[1e16, 0.1, 1e307, -0.0], [1.0, 0.2, 1e307, 0.0], [-1e16, 0.3, -1e307, -0.0]],
        "float16": [[2048.0, 0.1, 2e4, 6e-8], [1.0, 0.2, 2e4, 6e-8], [1.0, 0.3, -2e4, 0.0]],
        "bfloat16": [[256.0, 0.1, 1e38, 1e-40], [1.0, 0.2, 1e38, 1e-40], [1.0, 0.3, -1e38, 0.0]],
    }
    for dtype, ranks in values.items():
        spec = Spec(None, dtype, (len(ranks[0]),))
        stored = [(list(range(spec.size)), bytes_of(one, dtype)) for one in ranks]
        for reduction, weights in (
            (SUM, (1.0, 1.0, 1.0)),
            (MEAN, (1.0, 1.0, 1.0)),
            (SUM, (0.1, 3.0, 1e-3)),
            (MEAN, (0.1, 3.0, 1e-3)),
            (MEAN, (7.0, 0.0, 7.0)),
        ):
            found = find_factors(weights, mean=reduction == MEAN)
            assert found is not None
            rows.append(
                {
                    "dtype": dtype,
                    "reduction": reduction,
                    "weights": _hex(*weights),
                    "values": [data.hex() for _, data in stored],
                    "result": bytes_of(add_weighted(spec, stored, *found), dtype).hex(),
                }
            )
    about = "All elements of three ranks, and their sum or mean."
    return Case("agreement-sums", {"id": "agreement-sums", "about": about, "sums": rows})
