"""All systems, in the order in which the benchmark runs them."""

from __future__ import annotations

import collectives as co
from benchmarks.training.systems.cltk import Leader
from benchmarks.training.systems.codec import Codec
from benchmarks.training.systems.local import LocalUpdates
from benchmarks.training.systems.oktopk import Owners
from benchmarks.training.systems.plain import Alone, Cast, Dense, PlainTopK
from benchmarks.training.systems.powersgd import PowerSGD
from benchmarks.training.systems.published import GRADIENT_RECIPES, build_published
from benchmarks.training.systems.system import WARM_UP, System

__all__ = ["DENSE", "SYSTEMS"]

CODES = "rice | error-bounded"
BUDGETS = (1.0, 0.25, 0.1, 0.03)
TODAY, OURS, PAPERS, ABLATION = "in use today", "this library", "papers", "ablation"

DILOCO_OUTERS = ((0.7, 0.9), (1.0, 0.5))

DENSE = Dense("dense", TODAY)

RATES = (
    *co.ratios_by_flops(
        {"held.in/weight": 256, "held.0/*/weight": 256, "held.[12]/*/weight": 64, "held.out/weight": 1}
    ).items(),
    *co.ratios_by_flops(
        {"lstm.weight*": 64, "embedding.weight": 64, "out.weight": 64}, dense_first=False
    ).items(),
    ("*", 1.0),
)
"""ScaleCom's ratios: ResNet-20's convolutions at 256 positions 25x, all others 400x; an LSTM 400x."""

_DECISIVE: tuple[System, ...] = (
    DENSE,
    *(
        Codec(f"budget {bits:g}", OURS, f"budget(bits={bits}) | {CODES}", whole=True)
        for bits in (0.25, 0.1, 0.03, 1.0)
    ),
    PlainTopK("top-k 1 % as published", TODAY),
    PowerSGD("PowerSGD, rank 4", TODAY),
    Codec("budget 0.64", OURS, f"budget(bits=0.64) | {CODES}", whole=True),
    Cast("fp16", TODAY, "float16"),
    Cast("bf16", TODAY, "bfloat16"),
    PowerSGD("PowerSGD, rank 1", TODAY, rank=1),
    *(
        Codec(
            f"budget {bits:g}, corrected momentum",
            OURS,
            f"budget(bits={bits}) | {CODES}",
            "momentum",
            whole=True,
        )
        for bits in (0.25, 0.1, 0.03)
    ),
    PlainTopK("top-k 0.1 % as published", TODAY, ratio=0.001),
    LocalUpdates("local updates, dense", OURS),
    LocalUpdates(
        "SparseLoCo, but 2-bit QSGD",
        PAPERS,
        scheme="chunk-topk(0.015625, chunk=4096) | rice | qsgd(bits=2, bucket=64)",
    ),
    *(
        LocalUpdates(
            f"local updates every {every}, {bits:g} bits per step",
            OURS,
            every,
            f"budget(bits={every * bits:g}) | {CODES}",
            decay=1.0,
            outer=(1.0, 0.5),
        )
        for every, bits in ((4, 0.25), (8, 0.1), (16, 0.03), (8, 0.15), (16, 0.07))
    ),
    *(
        LocalUpdates(
            f"local updates every {every}, 0.1 % per step",
            OURS,
            every,
            f"topk({every * 0.001:g}) | {CODES}",
            decay=1.0,
            outer=(1.0, 0.5),
        )
        for every in (4, 16)
    ),
    *(
        LocalUpdates(
            f"local updates every {every}, {bits:g} bits per step, inner momentum 0.5",
            OURS,
            every,
            f"budget(bits={every * bits:g}) | {CODES}",
            decay=1.0,
            inner=0.5,
        )
        for every, bits in ((4, 0.25), (6, 0.1), (8, 0.1), (16, 0.03), (24, 0.035), (32, 0.035))
    ),
    LocalUpdates(
        "local updates every 24, 0.035 bits per step, context codec, inner momentum 0.5",
        OURS,
        24,
        f"budget(bits={24 * 0.035:g}) | context | error-bounded",
        decay=1.0,
        inner=0.5,
    ),
    *(
        LocalUpdates(
            f"local updates every 24, 0.035 bits per step, inner momentum 0.5, delay 5{name}",
            OURS,
            24,
            f"budget(bits={24 * 0.035:g}) | {CODES}",
            decay=1.0,
            inner=0.5,
            delay=5,
            alpha=alpha,
        )
        for name, alpha in (("", 0.0), (", alpha 0.5", 0.5))
    ),
    LocalUpdates("DiLoCo, every 30", PAPERS, 30, outers=DILOCO_OUTERS),
    LocalUpdates(
        "Streaming DiLoCo, every 30", PAPERS, 30, outers=DILOCO_OUTERS, fragments=4, delay=5, alpha=0.5
    ),
    LocalUpdates(
        "SparseLoCo, 14 bits per element",
        PAPERS,
        30,
        outers=((1.0, 0.0), (0.7, 0.0)),
        by_senders=True,
        published=True,
    ),
    *(
        LocalUpdates(
            f"local updates every {every}, {bits:g} bits per step, half of the rest kept, mean of senders",
            OURS,
            every,
            f"budget(bits={every * bits:g}) | {CODES}",
            decay=1.0,
            outers=((1.0, 0.0), (1.0, 0.3)),
            keep=0.5,
            by_senders=True,
        )
        for every, bits in ((5, 0.0073), (10, 0.0073), (10, 0.0037), (10, 0.0018))
    ),
    *(
        LocalUpdates(
            f"local updates every {every}, {bits:g} bits per step, inner momentum 0.5, half of the rest kept",
            OURS,
            every,
            f"budget(bits={every * bits:g}) | {CODES}",
            decay=1.0,
            inner=0.5,
            keep=0.5,
        )
        for every, bits in ((12, 0.035), (1, 0.1))
    ),
    Leader("CLT-k 1 %, beta 1", PAPERS, warm_up=WARM_UP),
    Leader("CLT-k 1 %, beta 0.1", PAPERS, beta=0.1, warm_up=WARM_UP),
    Leader("CLT-k by FLOPs", PAPERS, ratios=RATES, warm_up=WARM_UP),
    Leader("CLT-k 47x", PAPERS, ratio=1 / 47, warm_up=WARM_UP),
    Owners("Ok-Topk 1 %", PAPERS, "topk(0.01) | rice | raw"),
    Owners("Ok-Topk 2 %", PAPERS, "topk(0.02) | rice | raw"),
)

_PAPERS: tuple[System, ...] = (
    *(build_published(name, PAPERS) for name in GRADIENT_RECIPES),
    Codec("RedSync 0.1 %", PAPERS, "redsync(0.001) | raw-index | raw"),
    Codec("GaussianKSGD 0.1 %", PAPERS, "gaussiank(0.001) | raw-index | raw"),
    Codec("naive Bloom", PAPERS, "topk(0.01) | bloom(policy=naive) | raw"),
    Codec("top-k 15 %, no feedback", PAPERS, "topk(0.15) | bitmap | raw", "none", whole=True),
    *(
        Codec(
            f"FFT, {100 - kept} % left out",
            PAPERS,
            f"rfft | topk({kept / 100}) | bitmap | offset-float(bits=10)",
            "none",
            whole=True,
        )
        for kept in (50, 15, 10)
    ),
    Codec(
        "FFT, 90 % left out, then none",
        PAPERS,
        "rfft | topk(0.1) | bitmap | offset-float(bits=10)",
        "none",
        whole=True,
        sparse=130 / 180,
    ),
)

_ABLATIONS: tuple[System, ...] = (
    Alone("one worker alone", ABLATION),
    Codec("top-k 10 %, error 0.1", ABLATION, "topk(0.1) | rice | error-bounded(0.1)", whole=True),
    Codec("top-k 10 %, error 0.1, per tensor", ABLATION, "topk(0.1) | rice | error-bounded(0.1)"),
    Codec("top-k 1 %, float32", ABLATION, "topk(0.01) | rice | raw", whole=True),
    Codec("top-k 1 %, qsgd 4 bits", ABLATION, "topk(0.01) | rice | qsgd(bits=4)", whole=True),
    Codec("top-k 1 %, sign and scale", ABLATION, "topk(0.01) | rice | sign-scale", whole=True),
    Codec("budget 0.1, per tensor", ABLATION, f"budget(bits=0.1) | {CODES}", min_ndim=2),
    Codec("budget 0.1, decay 0.95", ABLATION, f"budget(bits=0.1) | {CODES}", decay=0.95, whole=True),
    Codec("budget 0.1, no feedback", ABLATION, f"budget(bits=0.1) | {CODES}", "none", whole=True),
    Codec(
        "budget 0.1, no masking",
        ABLATION,
        f"budget(bits=0.1) | {CODES}",
        "momentum",
        masking=False,
        whole=True,
    ),
    *(
        Codec(
            f"budget 0.1, {layer} at 2 bits",
            ABLATION,
            f"budget(bits=0.1) | {CODES}",
            rules=((glob, f"budget(bits=2.0) | {CODES}"),),
        )
        for layer, glob in (("embeddings", "*embedding*"), ("output layer", "*out?weight"))
    ),
    Codec("top-k 0.1 %", ABLATION, "topk(0.001) | rice | error-bounded(0.3)", whole=True),
    Codec(
        "top-k 0.1 %, warm-up", ABLATION, "topk(0.001) | rice | error-bounded(0.3)", whole=True, warm_up=0.05
    ),
    Codec(
        "SIDCo, our controller, warm-up",
        ABLATION,
        "sidco(0.001, mode=adaptive) | raw-index | raw",
        warm_up=WARM_UP,
        start=0.25,
    ),
    Codec(
        "top-k 0.1 %, corrected momentum",
        ABLATION,
        "topk(0.001) | rice | error-bounded(0.3)",
        "momentum",
        whole=True,
    ),
)

SYSTEMS: dict[str, System] = {one.name: one for one in (*_DECISIVE, *_PAPERS, *_ABLATIONS)}
