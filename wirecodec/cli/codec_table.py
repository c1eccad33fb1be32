"""Descriptions of codecs, selectors and transforms, read from the registry and from their classes.

A class describes itself: its fields are the parameters, the first line of its docstring is the summary, and
the section "Args:" has the meaning and range of each parameter. Classes that a program registered are
described in the same way.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wirecodec.registry import EXPERIMENTAL, stages, transforms
from wirecodec.settings.scheme import Scheme
from wirecodec.value import TYPED_RAW, Raw

_FOLDERS = {"transform": "transform", "index codec": "index", "value codec": "value"}
"""Folder of formats/spec per stage that has bytes of its own."""
_FIELDS = {"transform": "transform", "selector": "select", "index codec": "index", "value codec": "value"}
_SAMPLES: Mapping[str, Any] = {"float": 0.01, "int": 100}
"""Arguments for an example, by the type of a parameter that has no default."""
_BASE = Scheme.parse("topk(0.01) | rice | raw")
_SECTION = re.compile(r"^(?:Args|Attributes|Raises|Returns|Yields|Examples):$", re.MULTILINE)
_ARGUMENT = re.compile(r"^    (\w+): ", re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """Parameter of a stage.

    Attributes:
        name: as in a scheme.
        default: None if ``required``.
        required: whether it has no default.
        meaning: its line in the docstring, with the allowed range; "" if it has none.
    """

    name: str
    default: Any
    required: bool
    meaning: str

    def __str__(self) -> str:
        return self.name if self.required else f"{self.name}={self.default}"


@dataclass(frozen=True)
class Description:
    """Description of a selector, codec or transform.

    Attributes:
        stage: "transform", "selector", "index codec" or "value codec".
        name: as in a scheme.
        wire_ids: its numbers in a container; empty if containers do not name it.
        parameters: in the order of positional arguments.
        summary: the first line of its docstring.
        details: the other paragraphs of its docstring.
        example: a scheme that uses it; None if arguments for it are not known.
        page: its specification within the repository, or None.
    """

    stage: str
    name: str
    wire_ids: tuple[int, ...]
    parameters: tuple[Parameter, ...]
    summary: str
    details: str
    example: Scheme | None
    page: str | None

    @property
    def call(self) -> str:
        """Return the name with its parameters and their defaults: "qsgd(bits=4, bucket=512)"."""
        return f"{self.name}({', '.join(map(str, self.parameters))})" if self.parameters else self.name


def describe_all() -> list[Description]:
    """Describe everything that a scheme can name, stage by stage."""
    return [describe(stage, cls) for stage, classes in stages().items() for cls in classes.values()]


def describe(stage: str, cls: Any) -> Description:
    """Describe one registered class.

    Args:
        stage: at which it is registered.
        cls: a dataclass.

    Examples:
        >>> from wirecodec.value import QSGD
        >>> found = describe("value codec", QSGD)
        >>> found.call, str(found.example)
        ('qsgd(bits=4, bucket=512, norm=max)', 'topk(0.01) | rice | qsgd')
    """
    text = inspect.cleandoc(cls.__doc__ or "")
    prose = _SECTION.split(text, maxsplit=1)[0].strip()
    summary, _, details = prose.partition("\n\n")
    ids = tuple(_find_ids(stage, cls))
    standard = any(wire_id < EXPERIMENTAL for wire_id in ids)
    return Description(
        stage,
        cls.name,
        ids,
        tuple(_find_parameters(cls, _read_arguments(text))),
        " ".join(summary.split()).removesuffix("."),
        details.strip(),
        _find_example(stage, cls),
        f"formats/spec/{_FOLDERS[stage]}/{cls.name}.md" if standard else None,
    )


def _find_ids(stage: str, cls: Any) -> list[int]:
    """Return the numbers that containers have for a class; ``raw`` has one per type of its values."""
    if stage == "transform":
        return [number for number, one in transforms().items() if one is cls]
    wire_id = getattr(cls, "wire_id", None)
    if wire_id is None:
        return []
    return [wire_id, *(one.wire_id for one in TYPED_RAW if cls is Raw)]


def _find_parameters(cls: Any, meanings: Mapping[str, str]) -> Iterator[Parameter]:
    for field in dataclasses.fields(cls):
        required = field.default is dataclasses.MISSING
        yield Parameter(
            field.name, None if required else field.default, required, meanings.get(field.name, "")
        )


def _read_arguments(text: str) -> dict[str, str]:
    """Read the section "Args:" of a docstring: {parameter: its text on one line}."""
    _, _, rest = text.partition("Args:\n")
    words = _ARGUMENT.split(_SECTION.split(rest, maxsplit=1)[0])
    return {name: " ".join(meaning.split()) for name, meaning in zip(words[1::2], words[2::2], strict=True)}


def _find_example(stage: str, cls: Any) -> Scheme | None:
    """Return a scheme with this stage, or None if no arguments are found that it accepts."""
    fields = dataclasses.fields(cls)
    required = [field for field in fields if field.default is dataclasses.MISSING]
    for given in ((), required, required or fields[:1]):
        try:
            part = cls(**{field.name: _SAMPLES[str(field.type).partition(" ")[0]] for field in given})
            return dataclasses.replace(_BASE, **{_FIELDS[stage]: part})
        except (KeyError, TypeError, ValueError):
            continue
    return None
