"""Strings of schemes, Compressors and local updates, with their hashes (spec/scheme.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from formats.vector_cases.case import Case
from formats.vector_cases.peers.header import short_hash
from formats.vector_cases.peers.texts import LocalSettings, compressor_text, mapping_text

TOPK = "topk(0.01) | rice | raw"
BIASES = {"ndim": [0, 1]}


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield _strings()
    yield _mappings()
    yield _compressors()
    yield _local_updates()


def _case(id: str, about: str, rows: Sequence[dict[str, Any]]) -> Case:
    strings = [row | {"hash": f"{short_hash(row['text'].encode()):016x}"} for row in rows]
    return Case(f"scheme-{id}", {"id": f"scheme-{id}", "about": about, "strings": strings})


def _strings() -> Case:
    pairs = (
        (
            "topk( ratio = 0.010 )|rice|qsgd(6, norm=max)",
            "topk(0.01) | rice | qsgd(bits=6)",
        ),
        (
            "topk(k=1000)|auto-index|raw(bfloat16)",
            "topk(k=1000) | auto-index | raw(bfloat16)",
        ),
        (
            "topk(1)|rice|raw",
            "topk(1.0) | rice | raw",
        ),
        (
            "topk(None, 7) | rice | raw(None)",
            "topk(k=7) | rice | raw",
        ),
        (
            "topk(k=0007) | rice | qsgd(bits=4, bucket=512)",
            "topk(k=7) | rice | qsgd",
        ),
        (
            "dct | topk(1e-2) | huffman(gaps) | deflate(shuffle=True)",
            "dct | topk(0.01) | huffman | deflate",
        ),
        (
            "rfft|all|bitmap|offset-float(min=-0.0, max=1e16)",
            "rfft | all | bitmap | offset-float(min=-0.0, max=1e+16)",
        ),
        (
            "threshold(0.00001) | context(64) | error-bounded",
            "threshold(1e-05) | context(64) | error-bounded",
        ),
        (
            "threshold(0.0001) | context | error-bounded(0.1)",
            "threshold(0.0001) | context | error-bounded(0.1)",
        ),
        (
            "threshold(1e15) | rice | raw",
            "threshold(1000000000000000.0) | rice | raw",
        ),
        (
            "threshold(5e-324) | rice | raw",
            "threshold(5e-324) | rice | raw",
        ),
        (
            "threshold(0.1000000000000000055) | rice | raw",
            "threshold(0.1) | rice | raw",
        ),
        (
            "budget(1) | rice | error-bounded(error=None)",
            "budget(1.0) | rice | error-bounded",
        ),
        (
            "chunk-topk(0.5, 8) | binned(bin=32) | zstd(19, False)",
            "chunk-topk(0.5, chunk=8) | binned(bin=32) | zstd(level=19, shuffle=False)",
        ),
        (
            "sidco(0.01,sid=gp,mode=adaptive) | auto-index(True) | 3lc",
            "sidco(0.01, sid=gp, mode=adaptive) | auto-index(smallest=True) | 3lc",
        ),
    )
    about = "Schemes: `given` may be any string of the grammar, and `text` is the canonical one."
    return _case("strings", about, [{"given": given, "text": text} for given, text in pairs])


def _mappings() -> Case:
    rows: list[dict[str, Any]] = []
    for keyed in (
        [["*", TOPK]],
        [["*.bias", "all | raw-index | raw"], ["*", TOPK]],
        [["it's", TOPK], ['"', TOPK], ["a\\b", TOPK], ["é", TOPK]],
        [[BIASES, "all | raw-index | raw"], [{"glob": "*w*", "min_size": 4096}, TOPK], [{}, TOPK]],
        [[{"ndim": 2, "max_size": 7}, TOPK]],
    ):
        pairs: list[list[Any]] = keyed
        rows.append({"schemes": pairs, "text": mapping_text(pairs)})
    rows.append({"schemes": TOPK, "sparse": True, "text": f"{TOPK}; sparse results"})
    rows.append({"schemes": TOPK, "loss_scale": 65536.0, "text": f"{TOPK}; loss scale 65536.0"})
    about = "Schemes by name: pairs of a glob, or the fields of a rule, and a scheme. Additions to a scheme."
    return _case("mappings", about, rows)


def _compressors() -> Case:
    rows = []
    every: tuple[dict[str, Any], ...] = (
        {},
        {"feedback": None},
        {"feedback": {"ErrorFeedback": {"beta": 0.5, "decay": 0.95}}},
        {"feedback": {"MomentumCorrection": {}}},
        {"feedback": {"MomentumCorrection": {"momentum": 0.5, "nesterov": True, "masking": False}}},
        {"feedback": [["*.bias", None], ["*", {"ErrorFeedback": {}}]]},
        {"feedback": [[BIASES, {"MomentumCorrection": {}}], [{}, None]]},
        {"clip": 1.0},
        {"schedule": "warm-up(100)"},
        {"schedule": "warm-up(100, start=0.25, hold=True)"},
        {"schedule": "steps('0:0.1 3000:0.01')"},
        {"schedule": "steps('0:10.0 500:1.0', factor=True)"},
        {"schedule": "diminishing"},
        {"schedule": "diminishing(0.5, rate=0.25, lipschitz=2.0, decay=0.75)"},
        {"schedule": "follow(theta=None, lipschitz=1.0)"},
        {"scope": "group"},
        {"schemes": [["*.bias", "all | raw-index | raw"], ["*", TOPK]]},
        {
            "schemes": [
                [BIASES, "all | raw-index | raw"],
                [{"glob": "*w*", "min_size": 4096}, TOPK],
                [{}, TOPK],
            ]
        },
        {"schemes": "budget(0.25) | rice | error-bounded", "scope": "group", "bytes_per_step": 400_000},
        {
            "schemes": "budget(0.25) | rice | error-bounded",
            "scope": "group",
            "weights": [["*embed*", 0.5], [{"ndim": 1}, 2.0]],
        },
    )
    for settings in every:
        given: dict[str, Any] = {"schemes": TOPK} | settings
        schemes = given.pop("schemes")
        for step in (0,) if settings else (0, 10**12 - 1):
            text = compressor_text(schemes, step=step, **given)
            rows.append({"schemes": schemes, **given, "step": step, "text": text})
    about = "Compressors, by those of their settings that differ from the defaults, at a step."
    return _case("compressors", about, rows)


def _local_updates() -> Case:
    rows = []
    for settings in (
        LocalSettings(),
        LocalSettings(every=500, rate=0.7, momentum=0.9, nesterov=True),
        LocalSettings(every=30, rate=1e-5, alpha=0.5),
        LocalSettings(every=30, divide="senders"),
    ):
        text = compressor_text(TOPK, step=12) + settings.text
        rows.append({"schemes": TOPK, "step": 12, "local_updates": settings.to_json(), "text": text})
    about = "Local updates over a store, in round 12."
    return _case("local-updates", about, rows)
