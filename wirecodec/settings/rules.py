"""Rules that assign settings to tensors by name, number of axes and size.

The keys of a mapping of schemes, feedbacks or ratios are globs on names, or Rules. The first match applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias, TypeVar

from wirecodec.errors import EncodeError
from wirecodec.validation import as_integer, set_fields

V = TypeVar("V")


@dataclass(frozen=True)
class Rule:
    """Key of a mapping that matches tensors by name, number of axes and number of elements.

    Args:
        glob: pattern of the name, as a plain key is.
        ndim: number of axes, or a tuple of numbers; None for any. A bias has 1, the weight of a
            linear layer or an embedding 2, that of a convolution over images 4.
        min_size: fewest elements; None for any.
        max_size: most elements; None for any.

    Raises:
        EncodeError: if an argument is out of range.

    Examples:
        >>> import wirecodec as wc
        >>> schemes = {wc.Rule(ndim=(0, 1)): "all | raw-index | raw", "*": "topk(0.01) | rice | qsgd"}
        >>> wc.Compressor(schemes).scheme("fc.bias", (10,)).select
        All()
    """

    glob: str = "*"
    ndim: int | tuple[int, ...] | None = None
    min_size: int | None = None
    max_size: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.glob, str):
            raise EncodeError(f"rule: glob is {self.glob!r}; it must be a string")
        if isinstance(self.ndim, tuple | list):
            set_fields(self, ndim=tuple(as_integer(n, "rule: ndim") for n in self.ndim))
        elif self.ndim is not None:
            set_fields(self, ndim=as_integer(self.ndim, "rule: ndim"))
        for name in ("min_size", "max_size"):
            if (value := getattr(self, name)) is not None:
                set_fields(self, **{name: as_integer(value, f"rule: {name}")})

    def __str__(self) -> str:
        fields = [f"{name}={value!r}" for name, value in vars(self).items() if value not in (None, "*")]
        return f"Rule({', '.join(fields)})"

    @property
    def needs_shape(self) -> bool:
        """Whether a match depends on the tensor's shape."""
        return (self.ndim, self.min_size, self.max_size) != (None, None, None)

    def matches(self, name: str, shape: tuple[int, ...] | None) -> bool:
        """Tell whether a tensor matches. Raises EncodeError if its shape is needed and not known."""
        if not _match_name(name, self.glob):
            return False
        if not self.needs_shape:
            return True
        if shape is None:
            raise EncodeError(f"{self} needs the tensor's shape, which is not known here", tensor=name)
        axes = (self.ndim,) if isinstance(self.ndim, int) else self.ndim
        size = prod(shape)
        return (
            (axes is None or len(shape) in axes)
            and (self.min_size is None or size >= self.min_size)
            and (self.max_size is None or size <= self.max_size)
        )


Key: TypeAlias = Any
"""A glob or a Rule; Any, because type checkers reject a dict with str keys as a Mapping of their union."""


EMBEDDING_GLOBS = ("*embed*", "*emb.*", "*wte*", "*wpe*")
"""Names of embeddings in common frameworks."""


def usual(
    matrices: Any,
    *,
    embeddings: Any = None,
    convolutions: Any = None,
    whole: Any = "all | raw-index | raw",
    min_size: int = 4096,
) -> dict[Rule, Any]:
    """Return the usual rules of a network: vectors and small tensors are sent whole, matrices compressed.

    Biases and normalizations are a small part of a model's bytes, and they train worse if they are delayed.

    Args:
        matrices: setting of linear layers, and of other kinds without one of their own: a scheme; or a ratio
            for CLT-k, with ``whole=1``.
        embeddings: setting of matrices with a name of ``EMBEDDING_GLOBS``; None for that of matrices.
        convolutions: setting of tensors with 3, 4 or 5 axes; None for that of matrices.
        whole: setting of tensors with less than 2 axes, or fewer than ``min_size`` elements.
        min_size: fewest elements of a tensor that is compressed.

    Returns:
        {Rule: setting}, for a Compressor, ``encode_many`` or CLT-k.

    Examples:
        >>> import wirecodec as wc
        >>> schemes = wc.rules.usual("topk(0.01) | rice | qsgd", convolutions="adacomp | rice | sign-scale")
        >>> compressor = wc.Compressor(schemes)
        >>> [str(compressor.scheme(n, s).select) for n, s in (("b", (512,)), ("conv", (64, 64, 3, 3)))]
        ['All()', 'AdaComp(bin=50, factor=2.0)']
    """
    rules = {Rule(ndim=(0, 1)): whole, Rule(max_size=min_size - 1): whole}
    if embeddings is not None:
        rules |= {Rule(glob, ndim=2): embeddings for glob in EMBEDDING_GLOBS}
    if convolutions is not None:
        rules[Rule(ndim=(3, 4, 5))] = convolutions
    return {**rules, Rule(): matrices}


def find_key(name: str, shape: tuple[int, ...] | None, mapping: Mapping[Any, Any]) -> Key | None:
    """Return the first key that matches a tensor, or None."""
    for key in mapping:
        if key.matches(name, shape) if isinstance(key, Rule) else _match_name(name, key):
            matched: Key = key
            return matched
    return None


def find_matches(tensors: Mapping[str, Any], mapping: Mapping[Any, V], what: str) -> dict[str, V]:
    """Return the value of the first key that matches, for each of {name: tensor}; see ``find_match``."""
    keys = tuple(mapping)
    shapes: tuple[Any, ...] | None = None
    if any(isinstance(key, Rule) and key.needs_shape for key in keys):
        shapes = tuple(getattr(x, "shape", None) for x in tensors.values())
    places = _find_places(tuple(tensors), shapes, keys)
    if None in places:
        name = list(tensors)[places.index(None)]
        find_match(name, getattr(tensors[name], "shape", None), mapping, what)
    values = [mapping[key] for key in keys]
    return {name: values[place] for name, place in zip(tensors, places, strict=True) if place is not None}


@lru_cache(maxsize=64)
def _find_places(
    names: tuple[str, ...], shapes: tuple[Any, ...] | None, keys: tuple[Key, ...]
) -> tuple[int | None, ...]:
    """Return the place of the first key that matches each tensor, or None; the same in each step."""
    places = {key: place for place, key in enumerate(keys)}
    mapping = dict.fromkeys(keys)
    matches = [find_key(name, None if shapes is None else shapes[i], mapping) for i, name in enumerate(names)]
    return tuple(None if key is None else places[key] for key in matches)


def find_match(name: str, shape: tuple[int, ...] | None, mapping: Mapping[Any, V], what: str) -> V:
    """Return the value of the first key that matches a tensor; raise EncodeError if none does.

    Args:
        name: the tensor's name. A glob that is equal to it matches, even if it has the characters of globs.
        shape: the tensor's shape, which some Rules need; None if it is not known.
        mapping: {glob or Rule: value}.
        what: kind of the values, for the message.
    """
    key = find_key(name, shape, mapping)
    if key is None:
        keys = ", ".join(repr(key) if isinstance(key, str) else str(key) for key in mapping)
        word = "globs" if all(isinstance(key, str) for key in mapping) else "keys"
        raise EncodeError(f"no {what} matches; the {word} are {keys}", tensor=name)
    return mapping[key]


def key_text(key: Key) -> str:
    """Format a key so that equal keys, and no others, have equal texts."""
    return key if isinstance(key, str) else str(key)


def _match_name(name: str, glob: str) -> bool:
    return glob in ("*", name) or fnmatchcase(name, glob)
