"""Systems of each task, by the questions that the task answers; together they take a night on two cores.

Every system is on one task at least, and a claim's systems are on the claim's task.
"""

from __future__ import annotations

__all__ = [
    "ADAM",
    "IMAGES",
    "LARGE",
    "LONG",
    "OWNERS",
    "RECOMMENDATIONS",
    "TEXT",
    "TEXT_LONG",
    "TRANSFORMER",
    "WORKERS",
]

IN_USE = (
    "dense",
    "top-k 1 % as published",
    "PowerSGD, rank 4",
    "fp16",
    "bf16",
    "PowerSGD, rank 1",
    "top-k 0.1 % as published",
)
BUDGETS = ("budget 0.25", "budget 0.1", "budget 0.03", "budget 1", "budget 0.64")
LOCAL = (
    "local updates every 4, 0.25 bits per step",
    "local updates every 8, 0.1 bits per step",
    "local updates every 16, 0.03 bits per step",
)

LOCAL_MOMENTUM = tuple(f"{name}, inner momentum 0.5" for name in LOCAL)

TEXT = (
    *IN_USE,
    *BUDGETS,
    *LOCAL,
    *LOCAL_MOMENTUM,
    "local updates every 24, 0.035 bits per step, inner momentum 0.5",
    "local updates every 24, 0.035 bits per step, inner momentum 0.5, delay 5",
    "local updates every 24, 0.035 bits per step, inner momentum 0.5, delay 5, alpha 0.5",
    "local updates every 32, 0.035 bits per step, inner momentum 0.5",
    "local updates every 24, 0.035 bits per step, context codec, inner momentum 0.5",
    "local updates every 6, 0.1 bits per step, inner momentum 0.5",
    "local updates every 12, 0.035 bits per step, inner momentum 0.5, half of the rest kept",
    "local updates every 1, 0.1 bits per step, inner momentum 0.5, half of the rest kept",
    # An eighth of the bits of PowerSGD.
    "local updates every 8, 0.15 bits per step",
    "local updates, dense",
    "SparseLoCo, but 2-bit QSGD",
    # Claims: selectors at 0.1 %, CLT-k, AdaComp.
    *("CLT-k 1 %, beta 1", "CLT-k by FLOPs", "adacomp", "sidco", "SIDCo, our controller, warm-up", "dgc"),
    *("RedSync 0.1 %", "GaussianKSGD 0.1 %"),
    # Ablations: density against bits, value codecs, one vector against layers, feedback, layers left alone.
    *("top-k 10 %, error 0.1", "top-k 10 %, error 0.1, per tensor", "top-k 1 %, float32"),
    *("top-k 1 %, qsgd 4 bits", "top-k 1 %, sign and scale", "budget 0.1, per tensor"),
    *("budget 0.1, decay 0.95", "budget 0.1, no feedback"),
    *("budget 0.1, embeddings at 2 bits", "budget 0.1, output layer at 2 bits"),
    "one worker alone",
)
IMAGES = (
    *IN_USE,
    *BUDGETS,
    *LOCAL,
    *("local updates, dense", "local updates every 4, 0.1 % per step"),
    "local updates every 16, 0.1 % per step",
    # Claims: DeepReduce, FFT, AdaComp, SIDCo, ScaleCom.
    *("CLT-k 1 %, beta 1", "CLT-k by FLOPs"),
    *("deepreduce-bf-p0", "deepreduce-bf-p1", "deepreduce-bf-p2"),
    *("deepreduce-fit-poly", "deepreduce-fit-dexp", "deepreduce-both", "naive Bloom"),
    *("3lc", "qsgd", "qsgd-3-bits", "terngrad", "terngrad-noclip", "fft", "top-k 15 %, no feedback"),
    *("FFT, 50 % left out", "FFT, 85 % left out", "FFT, 90 % left out", "FFT, 90 % left out, then none"),
    *("adacomp", "sidco", "SIDCo, our controller, warm-up"),
    # Ablations of SGD's momentum: corrected, masked, with a warm-up.
    *("budget 0.25, corrected momentum", "budget 0.1, corrected momentum"),
    *("budget 0.03, corrected momentum", "budget 0.1, no masking"),
    *("top-k 0.1 %", "top-k 0.1 %, warm-up", "top-k 0.1 %, corrected momentum", "dgc"),
)
RECOMMENDATIONS = (
    *IN_USE,
    *BUDGETS,
    *LOCAL,
    *("local updates, dense", "local updates every 16, 0.07 bits per step"),
    "local updates every 16, 0.1 % per step",
    # Claims: DeepReduce's systems for gradients that are sparse already.
    *("deepreduce-both", "deepreduce-sparse", "deepreduce-qsgd-bf-p0", "skcompress", "sketchml"),
)
TRANSFORMER = (
    *("dense", "PowerSGD, rank 4", "top-k 1 % as published", "top-k 0.1 % as published"),
    *("budget 0.25", "budget 0.1", "budget 0.03", "budget 0.64"),
    *LOCAL_MOMENTUM,
    *("sidco", "SIDCo, our controller, warm-up", "CLT-k 1 %, beta 1", "CLT-k 47x"),
)
LARGE = ("dense", "top-k 1 % as published", "CLT-k 1 %, beta 1", "CLT-k 1 %, beta 0.1")
"""Images in large batches, for ScaleCom's claim about beta, beside top-k with feedback."""

ADAM = ("dense", "adacomp")
"""Images with Adam, for AdaComp's Figure 3."""

LONG = ("dense", "top-k 0.1 %", "top-k 0.1 %, warm-up")
"""Images with more steps, for the target at 0.1 % of the elements."""

OWNERS = ("top-k 1 %, float32", "Ok-Topk 1 %")
"""Ok-Topk beside top-k that is gathered from all workers, with as many elements."""
OWNERS_OF_8 = (*OWNERS, "Ok-Topk 2 %")
"""With 8 workers, Ok-Topk of twice as many elements moves no more bytes than the gathered top-k."""

WORKERS = LARGE
"""Images with other numbers of workers, for ScaleCom's claim that more workers cost no accuracy."""

TEXT_LONG = (
    *("dense", "DiLoCo, every 30", "Streaming DiLoCo, every 30", "SparseLoCo, 14 bits per element"),
    "one worker alone",
    *(
        f"local updates every {every}, {bits} bits per step, half of the rest kept, mean of senders"
        for every, bits in ((5, 0.0073), (10, 0.0073), (10, 0.0037), (10, 0.0018))
    ),
)
"""Local updates over a long run, for the targets at a few thousandths of a bit per step."""
