"""Registry of codecs, selectors and transforms by name and by wire id.

A test compares the ids, which are class attributes, with formats/registry.toml. ``register`` adds
user-defined codecs and selectors. A name that is not known is looked up among the entry points of installed
distributions. This registry is the only state of the package that a caller can change.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
from abc import ABC
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from wirecodec.errors import EncodeError
from wirecodec.index import CHOICES as INDEX_CHOICES
from wirecodec.index import CODECS as INDEX_CODECS
from wirecodec.index.base import IndexChoice, IndexCodec, LossyIndexCodec
from wirecodec.select import SELECTORS
from wirecodec.select.base import Selector
from wirecodec.transform import TRANSFORMS, Transform
from wirecodec.value import CHOICES as VALUE_CHOICES
from wirecodec.value import CODECS as VALUE_CODECS
from wirecodec.value import TYPED_RAW, ValueCodec
from wirecodec.value.base import ValueChoice

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

EXPERIMENTAL = 0x80
"""The lowest id for codecs that no specification defines."""

GROUP = "wirecodec.codecs"
"""Group of the entry points by which distributions offer codecs and selectors: names, and their classes."""

T = TypeVar("T", bound=type)

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")

_domain = {c.domain: c for c in TRANSFORMS}
_index = {c.wire_id: c for c in INDEX_CODECS}
_value = {c.wire_id: c for c in (*VALUE_CODECS, *TYPED_RAW)}
_stages: dict[str, dict[str, Any]] = {
    "transform": {c.name: c for c in TRANSFORMS},
    "selector": {c.name: c for c in SELECTORS},
    "index codec": {c.name: c for c in INDEX_CODECS} | {c.name: c for c in INDEX_CHOICES},
    "value codec": {c.name: c for c in VALUE_CODECS} | {c.name: c for c in VALUE_CHOICES},
}


_preset_names: set[str] = set()


def stages() -> dict[str, dict[str, Any]]:
    """Return the classes that a scheme can name: {stage: {name: class}}."""
    return {stage: dict(classes) for stage, classes in _stages.items()}


def stages_of(name: str) -> list[str]:
    """Return the stages at which a name is known; usually one, or none."""
    return [stage for stage, classes in _stages.items() if name in classes]


def name_presets(names: Iterable[str]) -> None:
    """Add names of presets, which error messages use. ``presets.py`` is above this module and calls it."""
    _preset_names.update(names)


def is_preset(name: str) -> bool:
    """Return whether a preset has this name."""
    return name in _preset_names


def index_codecs() -> dict[int, type[IndexCodec]]:
    """Return every index codec that a reader knows, by wire id."""
    return dict(_index)


def value_codecs() -> dict[int, type[ValueCodec]]:
    """Return every registered value codec, by wire id."""
    return dict(_value)


def readable_codecs() -> tuple[tuple[type[IndexCodec], ...], tuple[type[ValueCodec], ...]]:
    """Return every index codec and every value codec that a reader knows."""
    return tuple(_index.values()), tuple(_value.values())


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
    """Return the class of a name at a stage; raise EncodeError with the nearest valid name.

    An unknown name is looked up among the installed distributions first.
    """
    classes = _stages[stage]
    if name not in classes:
        _register_installed(name)
    if name not in classes:
        hint, order = suggestion(name, classes), _explain_order(name)
        if order:
            hint = f"{hint} {order}" if hint.endswith("?") else f"; {order}"
        raise EncodeError(f"unknown {stage} {name!r}{hint}")
    return classes[name]


def _explain_order(name: str) -> str:
    """Return a hint for the name of another stage, as if two of them are swapped."""
    for stage in stages_of(name):
        kind = f"an {stage}" if stage.startswith("index") else f"a {stage}"
        return f"{name!r} is {kind}, and the order is selector | index codec | value codec"
    return ""


def suggestion(name: str, valid: Iterable[str]) -> str:
    """Format a hint for an unknown name: the nearest valid one, or all of them."""
    names = sorted(valid)
    folded = {one.lower(): one for one in names}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {folded[close[0]]!r}?"
    return f"; known: {', '.join(names)}" if names else "; none is known"


def register(cls: T) -> T:
    """Register a user-defined selector, index codec or value codec; usable as a class decorator.

    A class of the same module and qualified name replaces the earlier one. An index codec that does not
    decode to the same indices must be a ``LossyIndexCodec`` (``wirecodec/index/base.py``). A codec with
    ``max_bytes`` works with ``max_encoded_bytes``, too.

    Args:
        cls: a dataclass that satisfies ``Selector``, ``IndexCodec`` or ``ValueCodec``. Its name must be new;
            a codec's ``wire_id`` must be new and from 0x80 to 0xFF.

    Returns:
        ``cls``.

    Raises:
        EncodeError: the class is not a selector or codec, or its name or id is invalid or in use.

    Examples:
        >>> import dataclasses, numpy as np, wirecodec as wc
        >>> @wc.register
        ... @dataclasses.dataclass(frozen=True)
        ... class First:
        ...     name = "first"
        ...     def select(self, x, *, gradient=None, state=None, seed=0):
        ...         return wc.Selection(np.arange(min(1, x.size), dtype=np.int32))
        >>> wc.decode(wc.encode(np.ones(3, "f4"), "first | rice | raw")).nnz
        1
    """
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise EncodeError(
            f"{cls.__name__}: name is {name!r}; it must consist of lower-case letters, digits and hyphens"
        )
    stage = _stage(cls)
    known: dict[int, Any] = cast("dict[str, Any]", {"index codec": _index, "value codec": _value}).get(
        stage, {}
    )
    existing = _stages[stage].get(name)
    if existing is not None and (existing.__module__, existing.__qualname__) != (
        cls.__module__,
        cls.__qualname__,
    ):
        raise EncodeError(f"{stage} {name!r} is registered already: {existing.__qualname__}")
    if stage != "selector":
        wire_id = getattr(cls, "wire_id", None)
        if not isinstance(wire_id, int) or not EXPERIMENTAL <= wire_id <= 0xFF:
            raise EncodeError(f"{cls.__name__}: wire_id is {wire_id!r}; it must be 0x80 to 0xFF")
        if wire_id in known and known[wire_id].name != name:
            raise EncodeError(f"{cls.__name__}: wire_id {wire_id:#x} belongs to {known[wire_id].name!r}")
        known[wire_id] = cls
    _adopt(cls, stage)
    _stages[stage][name] = cls
    return cls


def _register_installed(name: str) -> None:
    """Register the class that an installed distribution offers by a name, if one does.

    Raises:
        EncodeError: several distributions offer the name, or the class cannot be loaded or registered.
    """
    offers = list(_find_offers(name))
    owners = " and ".join(f"{one.name} {one.version}" for one, _ in offers)
    if len(offers) > 1:
        raise EncodeError(f"{name!r} is offered by several distributions, {owners}; uninstall all but one")
    for _, entry in offers:
        try:
            cls = entry.load()
            if not isinstance(cls, type) or getattr(cls, "name", None) != name:
                raise EncodeError(f"{entry.value} is {cls!r}; it must be a class whose name is {name!r}")
            register(cls)
        except Exception as error:  # the distribution's code may raise anything
            raise EncodeError(
                f"{name!r} of the distribution {owners} cannot be used; update or uninstall it:"
                f" {type(error).__name__}: {error}"
            ) from error


def _find_offers(name: str) -> Iterator[tuple[Distribution, EntryPoint]]:
    """Yield the entry points of a name, and their distributions; of equal distributions, the first counts.

    Raises EncodeError if a distribution's list of entry points is damaged.
    """
    from importlib import metadata  # takes longer to import than a known name to find

    owners = {one.name for one in metadata.distributions() if GROUP in (one.read_text(_ENTRIES) or "")}
    found = {one.name: one for one in map(metadata.distribution, filter(None, owners))}
    for _, distribution in sorted(found.items()):
        try:
            entries = distribution.entry_points
        except Exception as error:  # a line without "=" is a TypeError
            raise EncodeError(
                f"{_ENTRIES} of the distribution {distribution.name} is damaged; install it again"
            ) from error
        yield from ((distribution, one) for one in entries if (one.group, one.name) == (GROUP, name))


def adopt(stage: str, part: Any) -> None:
    """Give an object of a class that ``register`` has not seen the optional methods of its stage.

    Raises:
        EncodeError: the object has not the methods of a stage.
    """
    is_instance = isinstance(getattr(part, "name", None), str) and not isinstance(part, type)
    if not is_instance or not any(hasattr(part, word) for word in _REQUIRED[stage]):
        raise EncodeError(f"{stage} is {part!r}, which is not one")
    if stage != "transform":
        _adopt(type(part), stage)


def _adopt(cls: type, stage: str) -> None:
    """Give a class that does not derive from a base class of its stage the optional methods of one."""
    plain, choice, lossy = _BASES[stage]
    base = lossy if getattr(cls, "lossy", False) else plain if hasattr(cls, _REQUIRED[stage][0]) else choice
    if issubclass(cls, base):
        return
    for name in dir(base):
        default = inspect.getattr_static(base, name)
        given = inspect.getattr_static(cls, name, None)
        if not name.startswith("_") and (given is None or given is inspect.getattr_static(choice, name, cls)):
            try:
                setattr(cls, name, default)
            except TypeError:
                raise EncodeError(f"{stage}: {cls.__name__} lacks {name}, and cannot be given it") from None
    base.register(cls)


_ENTRIES = "entry_points.txt"
_REQUIRED = {
    "transform": ("forward",),
    "selector": ("select",),
    "index codec": ("encode", "choose"),
    "value codec": ("encode", "choose"),
}
_BASES: dict[str, tuple[type[ABC], type[ABC], type[ABC]]] = {
    "selector": (Selector, Selector, Selector),
    "index codec": (IndexCodec, IndexChoice, LossyIndexCodec),
    "value codec": (ValueCodec, ValueChoice, ValueCodec),
}
"""For each stage, the base class of plain parts, of choices among them, and of lossy ones."""


def _stage(cls: type) -> str:
    """Return the stage of a class by its methods; raise EncodeError if it fits none."""
    if not dataclasses.is_dataclass(cls):
        raise EncodeError(f"{cls.__name__} is not a dataclass; its fields must be the parameters")
    if hasattr(cls, "select"):
        return "selector"
    encode: Any = getattr(cls, "encode", None)
    arguments = (
        len(inspect.signature(encode).parameters) - 1 if callable(encode) and hasattr(cls, "decode") else 0
    )
    if arguments == 2 and not hasattr(cls, "carries_nonfinite"):
        raise EncodeError(
            f"{cls.__name__}: carries_nonfinite is missing; a value codec must set it to True or False"
        )
    if arguments == 3 and getattr(cls, "lossy", False) and not hasattr(cls, "approximate"):
        raise EncodeError(
            f"{cls.__name__}: approximate(indices, d, stream) is missing; a lossy index codec must define it"
        )
    if arguments in (2, 3):
        return "value codec" if arguments == 2 else "index codec"
    raise EncodeError(
        f"{cls.__name__} has neither select(x, …) nor decode and encode; "
        "encode(indices, d, stream) makes an index codec, encode(values, stream) a value codec"
    )
