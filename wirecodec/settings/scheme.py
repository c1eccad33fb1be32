"""Scheme: the codecs of a tensor, as one value that can be compared, hashed, printed and parsed.

    topk(0.01) | rice | qsgd(bits=4)
    selector   | index codec | value codec

An optional transform comes first: ``dct | topk(0.01) | rice | qsgd``. A stage is a name, or a name with
arguments in parentheses: numbers, names, quoted strings, None, True, False. Arguments are the class's fields,
by position or by keyword. ``str(scheme)`` writes the arguments that differ from their defaults, and
``Scheme.parse`` reads them.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from wirecodec.element_types import DTYPES, name_of
from wirecodec.errors import EncodeError
from wirecodec.index.auto import AutoIndex
from wirecodec.index.base import IndexChoice
from wirecodec.index.raw import RawIndex
from wirecodec.registry import adopt, is_preset, named, stages_of, suggestion
from wirecodec.select.all import All
from wirecodec.select.base import Selector
from wirecodec.select.nonzero import NonZero
from wirecodec.settings.rules import Key, find_match, find_matches
from wirecodec.transform import Transform
from wirecodec.value.base import ValueChoice
from wirecodec.value.raw import Raw

_CALL = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9_-]*)\s*(?:\((.*)\))?\s*\Z", re.DOTALL)
_BARE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\Z")
_INTEGER = re.compile(r"-?[0-9]+\Z")
MAX_TEXT = 4096
"""Characters of a scheme or a stage. Python's parser may fail, or crash, on much longer text."""


@dataclass(frozen=True)
class Scheme:
    """Selector, index codec, value codec and optional transform of a tensor, each a frozen dataclass.

    Args:
        select: the selector, such as ``TopK(0.01)``.
        index: the index codec, or ``AutoIndex()``.
        value: the value codec, or ``AutoValue()``.
        transform: None, or a transform. The selector then chooses among the coefficients; it gets the
            magnitudes of complex ones.

    Raises:
        EncodeError: a stage has the wrong kind of object.

    Examples:
        >>> import wirecodec as wc
        >>> scheme = wc.Scheme(wc.selectors.TopK(0.01), wc.codecs.Rice(), wc.codecs.QSGD(bits=4))
        >>> str(scheme), scheme == wc.Scheme.parse("topk(0.01) | rice | qsgd(bits=4)")
        ('topk(0.01) | rice | qsgd', True)
    """

    select: Selector
    index: IndexChoice
    value: ValueChoice
    transform: Transform | None = None

    def __post_init__(self) -> None:
        if self.transform is not None:
            adopt("transform", self.transform)
        for stage, part, base in (
            ("selector", self.select, Selector),
            ("index codec", self.index, IndexChoice),
            ("value codec", self.value, ValueChoice),
        ):
            if not isinstance(part, base) or (stage == "index codec" and self.index.lossy):
                adopt(stage, part)

    def require_dtype(self, dtype: np.dtype[Any]) -> None:
        """Raise EncodeError unless all stages carry an element type; index codecs carry every type."""
        if dtype in DTYPES:
            return
        stages = (self.transform, self.select, self.value)
        wrong = [part.name for part in stages if part and not getattr(part, "of_any_type", False)]
        if wrong:
            raise EncodeError(
                f"{wrong[0]} does not carry {name_of(dtype)}; use all or nonzero, with raw, deflate or zstd"
            )

    @cached_property
    def sends_all(self) -> bool:
        """Whether every element is sent losslessly."""
        return self.transform is None and isinstance(self.select, All) and self.value == Raw()

    @cached_property
    def element_bounds(self) -> dict[Any, float]:
        """Most bytes of one stored element by its type, as far as ``cpu.costs`` has asked the codecs."""
        return {}

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        stages = (self.transform, self.select, self.index, self.value)
        return " | ".join(call_string(part) for part in stages if part is not None)

    @classmethod
    def parse(cls, text: str) -> Scheme:
        """Parse a scheme's string.

        Args:
            text: ``[transform |] selector | index codec | value codec``, at most 4096 characters.

        Raises:
            EncodeError: the text is not a scheme; the message names the fault and the nearest valid name.

        Examples:
            >>> import wirecodec as wc
            >>> wc.Scheme.parse("topk(0.01) | rice | qsgd").select
            TopK(ratio=0.01, k=None)
        """
        if len(text) > MAX_TEXT:
            raise EncodeError(f"a scheme has {len(text)} characters; it must have at most {MAX_TEXT}")
        parts = [part.strip() for part in text.split("|")]
        stages = ["selector", "index codec", "value codec"]
        if len(parts) == 4:
            stages.insert(0, "transform")
        if len(parts) != len(stages) or not all(parts):
            raise EncodeError(_explain(text, parts))
        try:
            built = [parse_stage(stage, part) for stage, part in zip(stages, parts, strict=True)]
        except EncodeError as error:
            raise EncodeError(f"scheme {text!r}: {error.reason}") from None
        selector, index, value = built[-3:]
        return cls(selector, index, value, built[0] if len(built) == 4 else None)


_EXAMPLES = {
    "transform": "{} | topk(0.01) | rice | qsgd",
    "selector": "{} | rice | qsgd",
    "index codec": "topk(0.01) | {} | qsgd",
    "value codec": "topk(0.01) | rice | {}",
}


def _explain(text: str, parts: list[str]) -> str:
    """Explain why a text has the wrong number of stages, and what to write instead."""
    rule = "it must have three stages: selector | index codec | value codec, as in"
    name = text.partition("(")[0].strip()
    stages = stages_of(name) if len(parts) == 1 else []
    as_preset = f"wc.preset({text.strip()!r})"
    if stages:
        other = f"; the preset of this name is {as_preset}" if is_preset(name) else ""
        example = _EXAMPLES[stages[0]].format(text.strip())
        return f"scheme is {text!r}, which is one stage ({stages[0]}); {rule} {example!r}{other}"
    if is_preset(name):
        return f"scheme is {text!r}, which is a preset; use {as_preset}"
    return f"scheme is {text!r}; {rule} 'topk(0.01) | rice | qsgd'"


LOSSLESS = Scheme(NonZero(), AutoIndex(), Raw())
"""Default scheme, used if a scheme is None: lossless, and zeros are not sent."""

WHOLE = Scheme(All(), RawIndex(), Raw())
"""Scheme that sends every element losslessly, for tensors and steps that are not compressed."""

SchemeLike: TypeAlias = "Scheme | str | None"


def as_scheme(scheme: SchemeLike) -> Scheme:
    """Convert a Scheme, its string, or None (LOSSLESS) to a Scheme."""
    if isinstance(scheme, Scheme):
        return scheme
    if scheme is None:
        return LOSSLESS
    if isinstance(scheme, str):
        parsed = _parsed.get(scheme)
        if parsed is None:
            parsed = Scheme.parse(scheme)
            if len(_parsed) < _MAX_PARSED and not _has_user_stage(parsed):
                _parsed[scheme] = parsed
        return parsed
    raise EncodeError(f"scheme is {scheme!r}; it must be a Scheme, its string, or None")


_parsed: dict[str, Scheme] = {}
"""Schemes by their strings, because parsing takes longer than encoding a small tensor."""
_MAX_PARSED = 1024


def _has_user_stage(scheme: Scheme) -> bool:
    """Return whether a stage is user-defined: its name may get another class later."""
    stages = (scheme.transform, scheme.select, scheme.index, scheme.value)
    return any(stage is not None and not type(stage).__module__.startswith("wirecodec.") for stage in stages)


def scheme_for(
    name: str, scheme: SchemeLike | Mapping[Key, SchemeLike], shape: tuple[int, ...] | None = None
) -> Scheme:
    """Return the scheme of a tensor: the one for all, or that of the first key that matches it.

    Raises EncodeError if none matches.
    """
    if not isinstance(scheme, Mapping):
        return as_scheme(scheme)
    return as_scheme(find_match(name, shape, scheme, "scheme"))


def schemes_for(
    tensors: Mapping[str, Any], scheme: SchemeLike | Mapping[Key, SchemeLike]
) -> dict[str, Scheme]:
    """Return the scheme of each of {name: tensor}, as ``scheme_for`` does."""
    if not isinstance(scheme, Mapping):
        return dict.fromkeys(tensors, as_scheme(scheme))
    chosen = find_matches(tensors, scheme, "scheme")
    parsed = {id(one): as_scheme(one) for one in chosen.values()}
    return {name: parsed[id(one)] for name, one in chosen.items()}


def call_string(part: Any) -> str:
    """Format a frozen dataclass as the call that builds it, with the fields that differ from their defaults.

    A first field without a default, such as the ratio of topk, is positional. All others are keywords.
    """
    words = []
    for position, field in enumerate(dataclasses.fields(part)):
        value = getattr(part, field.name)
        if value == field.default and type(value) is type(field.default):
            continue
        text = (
            value if isinstance(value, str) and _BARE.match(value) and not _is_literal(value) else repr(value)
        )
        bare = position == 0 and field.default in (None, dataclasses.MISSING)
        words.append(text if bare else f"{field.name}={text}")
    return f"{part.name}({', '.join(words)})" if words else str(part.name)


def parse_stage(stage: str, text: str) -> Any:
    """Parse a selector, codec or transform; ``stage`` is one of the registry's."""
    return parse_call(text, lambda name: named(stage, name))


def parse_call(text: str, find: Any) -> Any:
    """Build the object of ``name(arguments)``; ``find`` returns the dataclass of a name."""
    name, arguments = read_call(text)
    cls = find(name)
    fields = [field.name for field in dataclasses.fields(cls)]
    given: dict[str, Any] = {}
    for position, (keyword, value) in enumerate(arguments):
        if not keyword and (position >= len(fields) or given.keys() - fields[:position]):
            raise EncodeError(f"{name}: argument {str(value)!r} is one too many, or follows a keyword")
        key = keyword or fields[position]
        if key not in fields:
            raise EncodeError(f"{name}: unknown parameter {key!r}{suggestion(key, fields)}")
        if key in given:
            raise EncodeError(f"{name}: parameter {key!r} is given twice")
        given[key] = value
    missing = [f.name for f in dataclasses.fields(cls) if _is_required(f) and f.name not in given]
    if missing:
        raise EncodeError(f"{name} needs {' and '.join(missing)}, as in {name}({missing[0]}=…)")
    try:
        return cls(**given)
    except TypeError as error:
        raise EncodeError(f"{name}: {error}") from None


def _is_required(field: dataclasses.Field[Any]) -> bool:
    has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    return field.init and not has_default


def read_call(text: str) -> tuple[str, list[tuple[str, Any]]]:
    """Split ``name(arguments)`` into the name and (keyword, value) pairs; a positional keyword is ""."""
    if len(text) > MAX_TEXT:
        raise EncodeError(f"a stage has {len(text)} characters; it must have at most {MAX_TEXT}")
    match = _CALL.match(text)
    if match is None:
        raise EncodeError(f"stage is {text!r}; it must be name or name(argument, field=argument)")
    arguments = []
    for argument in _split(match[2] or ""):
        key, equals, value = argument.partition("=")
        if equals:
            arguments.append((key.strip(), _literal(value.strip(), match[1])))
        else:
            arguments.append(("", _literal(argument.strip(), match[1])))
    return match[1], arguments


def _split(arguments: str) -> list[str]:
    return arguments.split(",") if arguments.strip() else []


def _is_literal(text: str) -> bool:
    try:
        _evaluate(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # the last two: too many nested brackets
        return False
    return True


def _evaluate(text: str) -> Any:
    """Return the value of a literal; unlike in Python, an integer may have leading zeros."""
    return int(text) if _INTEGER.match(text) else ast.literal_eval(text)


def _literal(text: str, name: str) -> Any:
    if _is_literal(text):
        value = _evaluate(text)
        if value is None or isinstance(value, bool | int | float | str):
            return value
    elif _BARE.match(text):
        return text
    raise EncodeError(
        f"{name}: argument is {text!r}; it must be a number, name, quoted string, None, True or False"
    )
