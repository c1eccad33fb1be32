"""Presets: the schemes of published systems, with the settings of their papers.

    preset("deepreduce-both")               topk(0.01) | bloom(policy=p2) | polyfit
    preset("deepreduce-both", ratio=0.001)  topk(0.001) | bloom(policy=p2) | polyfit

An override replaces a whole stage (``transform``, ``select``, ``index``, ``value``: an object or its string)
or sets a parameter of every stage that has it. The overrides can be part of the text, too:
``preset("dgc(ratio=0.01)")``. ``Scheme.parse`` does not know presets, because some have a codec's name. A
preset is only a scheme; ``wirecodec.settings.recipes`` adds feedback, schedule and clipping.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from wirecodec.errors import EncodeError
from wirecodec.registry import name_presets, suggestion
from wirecodec.settings.scheme import Scheme, parse_stage, read_call

_STAGES = {"transform": "transform", "select": "selector", "index": "index codec", "value": "value codec"}


@dataclass(frozen=True)
class Preset:
    """Scheme of a published system.

    Attributes:
        scheme: the stages with the paper's settings.
        source: the paper and section of the settings.

    Examples:
        >>> import wirecodec as wc
        >>> wc.PRESETS["dgc"].source
        'Lin et al., Deep Gradient Compression, 2018, section 3: the sampled threshold alone'
    """

    scheme: Scheme
    source: str


_DEEPREDUCE = "Xu et al., DeepReduce, 2021"
_FFT = "Wang et al., FFT-based gradient sparsification, 2020"
_SIDCO = "Abdelmoniem et al., SIDCo, 2021"
_TABLE = {
    "deepreduce-bf-p0": (
        "topk(0.01) | bloom(policy=p0, fpr=0.001) | raw",
        f"{_DEEPREDUCE}, section 6.1, Figures 7 and 15",
    ),
    "deepreduce-bf-p1": (
        "topk(0.01) | bloom(policy=p1, fpr=0.001) | raw",
        f"{_DEEPREDUCE}, section 6.1, Figures 7 and 15",
    ),
    "deepreduce-bf-p2": (
        "topk(0.01) | bloom(policy=p2, fpr=0.001) | raw",
        f"{_DEEPREDUCE}, section 6.3, Figure 9",
    ),
    "deepreduce-fit-poly": (
        "topk(0.01) | raw-index | polyfit(degree=5)",
        f"{_DEEPREDUCE}, sections 6.2 and 6.3, Figure 9",
    ),
    "deepreduce-fit-dexp": (
        "topk(0.01) | raw-index | dexpfit",
        f"{_DEEPREDUCE}, section 6.2",
    ),
    "deepreduce-both": (
        "topk(0.01) | bloom(policy=p2, fpr=0.001) | polyfit(degree=5)",
        f"{_DEEPREDUCE}, sections 5.1 and 6.4, Figure 10",
    ),
    "deepreduce-sparse": (
        "nonzero | bloom(policy=p2, fpr=0.01) | polyfit(degree=5)",
        f"{_DEEPREDUCE}, section 6.3, Table 2, for gradients that are sparse already",
    ),
    "deepreduce-qsgd-bf-p0": (
        "nonzero | bloom(policy=p0, fpr=0.6) | qsgd(bits=7, bucket=512)",
        f"{_DEEPREDUCE}, section 6.3, Table 2, for gradients that are sparse already",
    ),
    "skcompress": (
        "nonzero | huffman(symbols=gaps) | sketchml(buckets=128)",
        f"Jiang et al., SKCompress, 2020; {_DEEPREDUCE}, section 6.3, Table 2: 7 bits, no MinMaxSketch",
    ),
    "sketchml": (
        "nonzero | delta | sketchml(buckets=64)",
        f"Jiang et al., SketchML, 2018; {_DEEPREDUCE}, section 6.3: 64 buckets; here without MinMaxSketch",
    ),
    "3lc": (
        "all | raw-index | 3lc(sparsity=1.0)",
        f"Lim et al., 3LC, 2019; {_DEEPREDUCE}, section 6.3: multiplier 1",
    ),
    "qsgd": (
        "all | raw-index | qsgd(bits=4, bucket=512, norm=max)",
        "Alistarh et al., QSGD, 2017, section 4; without feedback",
    ),
    "qsgd-3-bits": (
        "all | raw-index | qsgd(bits=3, bucket=512, norm=max)",
        f"{_FFT}, section 4.2: 8 bins; buckets and norm are QSGD's",
    ),
    "terngrad": (
        "all | raw-index | terngrad(clip=2.5)",
        "Wen et al., TernGrad, 2017, section 3.3; without feedback",
    ),
    "terngrad-noclip": (
        "all | raw-index | terngrad",
        f"{_FFT}, section 4.2, Table 2",
    ),
    "fft": (
        "rfft | topk(0.15) | bitmap | offset-float(bits=10)",
        f"{_FFT}, section 4.2: θ = 85 %, 10 bits; each chunk's range, not ±1; without feedback",
    ),
    "adacomp": (
        "adacomp(bin=50) | binned(bin=50) | sign-scale",
        "Chen et al., AdaComp, 2018, Table 2: bin 50 for convolutions; 500 for other layers",
    ),
    "sidco": (
        "sidco(0.001, sid=exponential, mode=faithful, first=0.25, window=5, tolerance=0.2) | raw-index | raw",
        f"{_SIDCO}, section 4.1 and Algorithm 1: SIDCo-E; SIDCo-GP and SIDCo-P by sid=gamma-gp and sid=gp",
    ),
    "dgc": (
        "dgc(0.001, sample=0.01) | raw-index | raw",
        "Lin et al., Deep Gradient Compression, 2018, section 3: the sampled threshold alone",
    ),
}

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {name: Preset(Scheme.parse(text), source) for name, (text, source) in _TABLE.items()}
)
"""All presets by name."""
name_presets(PRESETS)


def preset(name: str, **overrides: Any) -> Scheme:
    """Return the scheme of a published system.

    Overrides replace a whole stage (``index="rice"``), then set a parameter of every stage that has it
    (``ratio=0.001``).

    Args:
        name: a key of ``PRESETS``, which also gives the source; or a key and its overrides as one text, as in
            a configuration file: "dgc(ratio=0.01, index=rice)".
        overrides: stages and parameters.

    Returns:
        A Scheme.

    Raises:
        EncodeError: a name is unknown, a parameter is out of range, or an override is given twice; names the
            nearest known name.

    Examples:
        >>> import wirecodec as wc
        >>> str(wc.preset("deepreduce-fit-dexp", ratio=0.001, index="rice"))
        'topk(0.001) | rice | dexpfit'
        >>> wc.preset("dgc(ratio=0.01)") == wc.preset("dgc", ratio=0.01)
        True
    """
    arguments: list[tuple[str, Any]] = []
    if isinstance(name, str) and "(" in name:
        name, arguments = read_call(name)
    if name not in PRESETS:
        raise EncodeError(f"unknown preset {name!r}{suggestion(str(name), PRESETS)}")
    for key, value in arguments:
        if not key or key in overrides:
            raise EncodeError(f"preset {name!r}: write each override once, as in {name}(ratio=0.001)")
        overrides[key] = value
    try:
        return override(PRESETS[name].scheme, overrides)
    except EncodeError as error:
        raise EncodeError(f"preset {name!r}: {error.reason}") from None


def override(scheme: Scheme, overrides: Mapping[str, Any]) -> Scheme:
    """Replace stages of a scheme, then set parameters; raise EncodeError for an unknown key."""
    stages = {
        stage: parse_stage(_STAGES[stage], given) if isinstance(given, str) else given
        for stage, given in overrides.items()
        if stage in _STAGES
    }
    scheme = dataclasses.replace(scheme, **stages)
    parts = {stage: part for stage in _STAGES if (part := getattr(scheme, stage)) is not None}
    fields = {stage: {field.name for field in dataclasses.fields(part)} for stage, part in parts.items()}
    known = set(_STAGES).union(*fields.values())
    for key in overrides:
        if key not in known:
            raise EncodeError(f"unknown override {key!r}{suggestion(key, known)}")
    for stage, part in parts.items():
        changes = {key: given for key, given in overrides.items() if key in fields[stage]}
        parts[stage] = dataclasses.replace(part, **changes)
    return dataclasses.replace(scheme, **parts)
