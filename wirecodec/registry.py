"""Names and wire ids ⇄ classes.

The codecs are those that each stage's package lists. Ids are class attributes; a test compares them with
formats/registry.toml. ``register`` admits user-defined codecs and selectors: ids 0x80 to 0xFF,
names that are not taken. It is the only state of the package that a caller can change.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
from collections.abc import Iterable
from typing import Any, TypeVar, cast

from wirecodec.errors import EncodeError
from wirecodec.index import CHOICES as INDEX_CHOICES
from wirecodec.index import CODECS as INDEX_CODECS
from wirecodec.index.base import IndexCodec
from wirecodec.select import (
    DGC,
    AdaComp,
    All,
    ChunkTopK,
    GaussianK,
    NonZero,
    RandomK,
    RedSync,
    Selector,
    SIDCo,
    Threshold,
    TopK,
)
from wirecodec.transform import TRANSFORMS, Transform
from wirecodec.value import CHOICES as VALUE_CHOICES
from wirecodec.value import CODECS as VALUE_CODECS
from wirecodec.value import TYPED_RAW, ValueCodec

__all__ = [
    "EXPERIMENTAL",
    "index_codec",
    "index_codecs",
    "named",
    "register",
    "suggestion",
    "transform",
    "transforms",
    "value_codec",
    "value_codecs",
]

EXPERIMENTAL = 0x80
"""The lowest id for codecs that no specification defines."""

T = TypeVar("T", bound=type)

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_SELECTORS: tuple[type[Selector], ...] = (
    *(All, NonZero, TopK, RandomK, Threshold),
    *(DGC, RedSync, GaussianK, ChunkTopK, AdaComp, SIDCo),
)

_domain = {c.domain: c for c in TRANSFORMS}
_index = {c.wire_id: c for c in INDEX_CODECS}
_value = {c.wire_id: c for c in (*VALUE_CODECS, *TYPED_RAW)}
_stages: dict[str, dict[str, Any]] = {
    "transform": {c.name: c for c in TRANSFORMS},
    "selector": {c.name: c for c in _SELECTORS},
    "index codec": {c.name: c for c in INDEX_CODECS} | {c.name: c for c in INDEX_CHOICES},
    "value codec": {c.name: c for c in VALUE_CODECS} | {c.name: c for c in VALUE_CHOICES},
}


def index_codecs() -> dict[int, type[IndexCodec]]:
    """Return every index codec that a reader knows, by wire id."""
    return dict(_index)


def value_codecs() -> dict[int, type[ValueCodec]]:
    """Return every registered value codec, by wire id."""
    return dict(_value)


def index_codec(wire_id: int) -> type[IndexCodec]:
    """Return the index codec of a known id."""
    return _index[wire_id]


def value_codec(wire_id: int) -> type[ValueCodec]:
    """Return the value codec of a registered id."""
    return _value[wire_id]


def transforms() -> dict[int, type[Transform]]:
    """Return every transform, by the domain of its coefficients."""
    return dict(_domain)


def transform(domain: int) -> type[Transform]:
    """Return the transform of a registered domain."""
    return _domain[domain]


def named(stage: str, name: str) -> Any:
    """The class that schemes call ``name`` at a stage; EncodeError naming the nearest valid name."""
    classes = _stages[stage]
    if name not in classes:
        raise EncodeError(f"unknown {stage} {name!r}{suggestion(name, classes)}")
    return classes[name]


def suggestion(name: str, valid: Iterable[str]) -> str:
    """What to say of a wrong name: the nearest right one, or all of them."""
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(names)}" if names else "; none is known"


def register(cls: T) -> T:
    """Admit a user-defined selector, index codec or value codec.

    The class must satisfy its Protocol and have a name that schemes can spell and that is not taken; a codec
    also a ``wire_id`` from 0x80 to 0xFF, and ``encode`` and ``decode`` that are inverse on the values they
    carry. An index codec that is not says so: ``LossyIndexCodec`` in ``wirecodec/index/base.py``.

    Returns ``cls``, so it serves as a decorator. A class of the same module and qualified name replaces the
    earlier one. Raises EncodeError where the class is not that.
    """
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise EncodeError(
            f"{cls.__name__}: name is {name!r}; it must be lower-case letters, digits and hyphens"
        )
    stage = _stage(cls)
    known: dict[int, Any] = cast("dict[str, Any]", {"index codec": _index, "value codec": _value}).get(
        stage, {}
    )
    taken = _stages[stage].get(name)
    if taken is not None and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
        raise EncodeError(f"{stage} {name!r} exists: {taken.__qualname__}")
    if stage != "selector":
        wire_id = getattr(cls, "wire_id", None)
        if not isinstance(wire_id, int) or not EXPERIMENTAL <= wire_id <= 0xFF:
            raise EncodeError(f"{cls.__name__}: wire_id is {wire_id!r}; user-defined ids are 0x80 to 0xFF")
        if wire_id in known and known[wire_id].name != name:
            raise EncodeError(f"{cls.__name__}: wire_id {wire_id:#x} belongs to {known[wire_id].name!r}")
        known[wire_id] = cls
    _stages[stage][name] = cls
    return cls


def _stage(cls: type) -> str:
    if not dataclasses.is_dataclass(cls):
        raise EncodeError(f"{cls.__name__} is no dataclass: parameters are its fields")
    if hasattr(cls, "select"):
        return "selector"
    encode: Any = getattr(cls, "encode", None)
    arguments = (
        len(inspect.signature(encode).parameters) - 1 if callable(encode) and hasattr(cls, "decode") else 0
    )
    if arguments == 2 and not hasattr(cls, "carries_nonfinite"):
        raise EncodeError(
            f"{cls.__name__}: a value codec says in carries_nonfinite whether NaN and Inf come back"
        )
    if arguments == 3 and getattr(cls, "lossy", False) and not hasattr(cls, "approximate"):
        raise EncodeError(f"{cls.__name__}: a lossy index codec has approximate(indices, d, stream)")
    if arguments in (2, 3):
        return "value codec" if arguments == 2 else "index codec"
    raise EncodeError(
        f"{cls.__name__} has neither select(x, …) nor decode and encode; "
        "encode(indices, d, stream) makes an index codec, encode(values, stream) a value codec"
    )
