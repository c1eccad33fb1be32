"""Acceptance of updates from strangers: both servers, Flower's and NVFlare's, judge them here.

An adapter reads what a client has sent into a ``Sent``, and uses nothing but what ``Acceptance.accept``
returns. So what was checked together is used together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from math import hypot, isfinite
from numbers import Real
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

import wirecodec as wc
from collectives.errors import Refused
from collectives.exchange.specs import get_limits
from wirecodec.interop import BFLOAT16, DTYPES, as_flat, dtype_named, find_nonfinite, read_only

Array: TypeAlias = "npt.NDArray[Any]"
Schema: TypeAlias = "dict[str, tuple[tuple[int, ...], np.dtype[Any]]]"
T = TypeVar("T")

UNKNOWN_MODEL = wc.DecodeLimits(max_entries=4096, max_elements=2**28, max_dense=2**28)
"""Limits of a receiver that does not know the model: 2^28 elements, which are 1 GiB of float32."""

_MAX_WEIGHT = 2**53
_MAX_DEPTH = 16
_MAX_TEXT = 80


@dataclass(frozen=True)
class Model:
    """What the server knows of its model.

    Attributes:
        arrays: {name: array}.
        counters: names of arrays that were no floats at first, such as ``num_batches_tracked``. A mean may
            have made them floats. They do not count in the norm.
    """

    arrays: Mapping[str, Array]
    counters: Collection[str] = ()

    def is_layer(self, name: str) -> bool:
        """Return whether a container may carry the movement of this array, and its norm counts."""
        return is_float(self.arrays[name].dtype) and name not in self.counters


@dataclass(frozen=True)
class Sent:
    """What a client has sent, as its adapter has read it.

    Attributes:
        container: movements as bytes, or None.
        plain: {name: array} that no container carries.
        values: what the plain arrays are, and what is returned: movements, or arrays of the model.
        beside: further arrays of numbers, which count in the norm, by names for messages.
    """

    container: Any
    plain: Mapping[str, Array]
    values: Literal["movements", "model"]
    beside: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Acceptance:
    """Conditions on the updates of clients.

    Attributes:
        limits: of the decoder; None for those that follow from the model, or for ``UNKNOWN_MODEL``.
        max_norm: largest L2 norm of all movements of an update together, or None.
        optional: globs of the arrays that a client may leave out.
        any_type: whether a container may have floats of other types than the model.
    """

    limits: wc.DecodeLimits | None = None
    max_norm: float | None = None
    optional: tuple[str, ...] = ()
    any_type: bool = False

    def accept(self, sent: Sent, model: Model | None) -> dict[str, Array]:
        """Return the arrays of an update, in the types of the model; those that were left out are missing.

        Args:
            sent: by the client.
            model: None if the server does not know it; any names and shapes are then accepted, and all
                numbers count in the norm.

        Returns:
            {name: array}, in the model's order; all of them finite.

        Raises:
            Refused: the update is not acceptable.
        """
        plain = {name: _fit(name, x, model) for name, x in sent.plain.items()}
        check_finite(plain)
        check_finite(sent.beside)
        decoded, types = ({}, {}) if sent.container is None else self._decode(sent.container, plain, model)
        if plain or sent.beside:  # the decoder has judged a container that is alone
            counted = {name: _movement(name, x, sent, model) for name, x in plain.items()}
            self._check_norm([*decoded.values(), *counted.values(), *sent.beside.values()])
        bases = model.arrays if model is not None and sent.values == "model" else {}
        with np.errstate(all="ignore"):  # a value that the type does not hold becomes Inf, which is refused
            moved = {
                name: np.asarray(bases[name] + x if name in bases else x).astype(types[name], copy=False)
                for name, x in decoded.items()
            }
        check_finite(moved)
        arrays = {**plain, **moved}
        if model is None:
            return arrays
        self._check_complete(arrays, model)
        return {name: arrays[name] for name in model.arrays if name in arrays}

    def _decode(
        self, blob: Any, plain: Mapping[str, Array], model: Model | None
    ) -> tuple[dict[str, Array], dict[str, np.dtype[Any]]]:
        """Decode movements to float32, or to float64 if the container has it; return their types, too."""
        try:
            if model is None:
                limits = self.limits or UNKNOWN_MODEL
                layers: Mapping[str, Any] = wc.decode_many(blob, limits=limits)
                schema = {name: (x.shape, x.dtype) for name, x in layers.items() if name not in plain}
            else:
                layers = {name: x for name, x in model.arrays.items() if is_float(x.dtype)}
                limits = self.limits or limits_of({name: (x.shape, x.dtype) for name, x in layers.items()})
                schema = self._schema_of(blob, {n: x for n, x in layers.items() if n not in plain})
            wide = {
                name: np.zeros(shape, np.float64 if dtype == np.float64 else np.float32)
                for name, (shape, dtype) in schema.items()
            }
            options: Any = {"limits": limits, "schema": schema, "finite": True, "max_norm": self.max_norm}
            wc.decode_add(blob, wide, **options)
        except wc.WireError as error:
            raise Refused(error.code, error.message) from error
        return wide, {name: layers[name].dtype for name in schema}

    def _schema_of(self, blob: Any, layers: Mapping[str, Array]) -> Schema:
        """Return the only names, shapes and types that the decoder accepts."""
        if not self.optional:
            return {name: (x.shape, x.dtype) for name, x in layers.items()}
        types = {name: one.dtype for one in wc.inspect(blob).entries for name, _ in one.members}
        known = {name: x for name, x in layers.items() if name in types}
        any_float = {x.name for x in DTYPES} if self.any_type else set()
        return {
            name: (x.shape, dtype_named(types[name]) if types[name] in any_float else x.dtype)
            for name, x in known.items()
        }

    def _check_norm(self, movements: Collection[Array]) -> None:
        """Raise Refused if the norm of all movements together is above ``max_norm``."""
        if self.max_norm is None:
            return
        with np.errstate(all="ignore"):
            norm = hypot(*(float(np.linalg.norm(x.astype(np.float64, copy=False))) for x in movements))
        if not norm <= self.max_norm:
            text = f"the movements have norm {norm!r}; the limit is {float(self.max_norm)!r}"
            raise Refused("max-norm", text)

    def _check_complete(self, arrays: Collection[str], model: Model) -> None:
        """Raise Refused if an array is missing that no client may leave out."""
        for name in model.arrays:
            if name not in arrays and not matches(name, self.optional):
                raise Refused("schema-names", f"the array {quote(name)} is missing")


def judge(decide: Callable[[], T]) -> T:
    """Return what a function returns; raise Refused for any error, so that no update ends a server's run."""
    try:
        return decide()
    except Refused:
        raise
    except Exception as error:
        text = f"{type(error).__name__} while the update was judged: {str(error)[:_MAX_TEXT]}"
        raise Refused("failed", text) from error


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether movements of an array of this type are encoded."""
    return dtype in DTYPES


def limits_of(schema: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> wc.DecodeLimits:
    """Return the limits for a container of a model; the transport has received its bytes already."""
    return replace(get_limits(schema, [np.empty(0, np.uint8)]), max_bytes=2**62, max_expansion=2**62)


def as_globs(argument: str, globs: Iterable[str]) -> tuple[str, ...]:
    """Return globs; raise ValueError if they are one text, whose letters would be taken for globs."""
    if isinstance(globs, str):
        raise ValueError(f"{argument} is {globs!r}; pass a list of globs, as [{globs!r}]")
    return tuple(globs)


def matches(name: str, globs: Iterable[str]) -> bool:
    """Return whether a name matches one of the globs."""
    return any(fnmatchcase(name, one) for one in globs)


def check_max_norm(max_norm: float | None) -> float | None:
    """Return a largest norm; raise ValueError unless it is a number from 0 on, or None."""
    if max_norm is not None and (isinstance(max_norm, str | bool) or not max_norm >= 0):
        raise ValueError(f"max_norm is {max_norm!r}; it must be 0 or more, or None")
    return max_norm


def check_weight(name: str, weight: Any, *, least: Literal["above 0", "0 or more"] = "above 0") -> None:
    """Raise Refused unless a mean can be taken with a weight that a client claims."""
    is_number = isinstance(weight, Real) and not isinstance(weight, bool)
    if is_number and (0 < weight <= _MAX_WEIGHT or (weight == 0 and least == "0 or more")):
        return
    raise Refused("weight", f"{quote(name)} is {_show(weight)}; it must be {least}, and at most 2^53")


def check_metrics(name: str, x: Any, *, arrays: bool = False) -> None:
    """Raise Refused unless metrics are finite real numbers, or text, None, dicts and lists of those.

    Args:
        name: for messages.
        x: nested data.
        arrays: whether arrays are allowed, too; ``arrays_in`` reads them.
    """
    for where, value in _walk(x, name):
        if isinstance(value, Real) and not _is_finite(value):
            raise Refused("nonfinite", f"the metric {quote(where)} is {_show(value)}; it must be finite")
        if not (isinstance(value, Real | str | bytes | None) or (arrays and _is_array(value))):
            text = f"the metric {quote(where)} is {type(value).__name__}; it must be a number"
            raise Refused("record", text)


def check_finite(arrays: Mapping[str, Array]) -> None:
    """Raise Refused if a float is NaN or Inf."""
    for name, x in arrays.items():
        if (is_float(x.dtype) or x.dtype.kind == "f") and (at := _first_nonfinite(x)) >= 0:
            text = f"layer {quote(name)}: element {at} is {float(x.reshape(-1)[at])}"
            raise Refused("nonfinite", text)


def arrays_in(x: Any, name: str) -> dict[str, Array]:
    """Return the arrays of numbers in nested data, by numbered names.

    Raises:
        Refused: an array has no numbers.
    """
    found = [_as_numbers(where, read_array(where, one)) for where, one in _walk(x, name) if _is_array(one)]
    return {f"{name} {number}": one for number, one in enumerate(found)}


def is_tensor(x: Any) -> bool:
    """Return whether an object is a tensor of torch; torch is not imported for it."""
    return "torch" in sys.modules and isinstance(x, sys.modules["torch"].Tensor)


def read_array(name: str, x: Any) -> Array:
    """View an array, a tensor or a number as an array on the host; copy a tensor of a GPU.

    Raises:
        Refused: it is none of these.
    """
    if isinstance(x, np.ndarray | np.generic | int | float):
        return np.asarray(x)
    if not is_tensor(x):
        text = f"{quote(name)} is {type(x).__name__}; it must be an array of numbers"
        raise Refused("array", text)
    try:
        x = x.detach().cpu()
        array: Array = x.numpy() if not _has_type(x) else as_flat(x).data.reshape(tuple(x.shape))
    except Exception as error:  # sparse, quantized or without data
        raise Refused("array", f"{quote(name)} cannot be read: {type(error).__name__}") from error
    return array


def quote(name: object) -> str:
    """Quote a name of a stranger for a message; a long one is cut."""
    text = name if isinstance(name, str) else type(name).__name__
    return repr(text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…")


def _walk(x: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested dicts, lists, tuples and sets, with their names.

    Raises:
        Refused: the nesting is too deep.
    """
    if depth > _MAX_DEPTH:
        raise Refused("record", f"{quote(name)} is nested more than {_MAX_DEPTH} deep")
    if isinstance(x, Mapping):
        for key, value in x.items():
            yield from _walk(value, key if isinstance(key, str) else name, depth + 1)
    elif isinstance(x, list | tuple | set | frozenset):
        for value in x:
            yield from _walk(value, name, depth + 1)
    else:
        yield name, x


def _is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray) or is_tensor(x)


def _has_type(x: Any) -> bool:
    """Return whether a container carries the type of a tensor; NumPy itself cannot view bfloat16."""
    try:
        dtype_named(x.dtype)
    except ValueError:
        return False
    return True


def _show(x: Any) -> str:
    """Describe a value of a stranger; Python refuses to print a very long integer."""
    if isinstance(x, int) and x.bit_length() > 64:
        return f"an integer of {x.bit_length()} bits"
    return repr(x) if isinstance(x, Real) else type(x).__name__


def _is_finite(x: Real) -> bool:
    try:
        return isfinite(x)
    except OverflowError:  # a large integer or fraction
        return False


def _as_numbers(name: str, x: Array) -> Array:
    """Return an array of real numbers, bfloat16 among them; raise Refused for others."""
    if is_float(x.dtype) or x.dtype.kind in "biuf":
        return x
    raise Refused("schema-dtype", f"the array {quote(name)} is {x.dtype}, which is no number")


def _fit(name: str, x: Array, model: Model | None) -> Array:
    """Return a plain array in the type in which it is used; raise Refused if it is no array of the model.

    The type is that of the layer. For a counter, it is one that holds the values of both.
    """
    if not isinstance(name, str):
        raise Refused("schema-names", f"the name of an array is {type(name).__name__}; it must be text")
    x = _as_numbers(name, x)
    dtype = x.dtype if is_float(x.dtype) or x.dtype.kind in "biu" else np.dtype(np.float64)  # no long double
    if model is None:
        pass
    elif name not in model.arrays:
        raise Refused("schema-names", f"the model has no array {quote(name)}")
    else:
        layer = model.arrays[name]
        if x.shape != layer.shape:
            text = f"the array {quote(name)} has shape {x.shape}; the model has {layer.shape}"
            raise Refused("schema-shape", text)
        if is_float(layer.dtype):
            dtype = layer.dtype
        else:  # NumPy itself promotes no bfloat16
            dtype = np.result_type(layer.dtype, np.float32 if dtype == BFLOAT16 else dtype)
    with np.errstate(all="ignore"):  # as above
        return np.ascontiguousarray(x.astype(dtype, copy=False)).reshape(x.shape)


def _movement(name: str, x: Array, sent: Sent, model: Model | None) -> Array:
    """Return what a plain array adds to the norm."""
    if model is None:
        return x
    if not model.is_layer(name):
        return np.zeros(0)
    if sent.values == "movements":
        return x
    with np.errstate(all="ignore"):
        return np.asarray(x.astype(np.float64) - model.arrays[name].astype(np.float64))


def _first_nonfinite(x: Array) -> int:
    """Return the position of the first NaN or Inf, or -1."""
    flat = np.ascontiguousarray(x).reshape(-1)
    if is_float(flat.dtype) and flat.dtype.isnative:
        return find_nonfinite(read_only(flat))
    wrong = np.flatnonzero(~np.isfinite(flat))
    return int(wrong[0]) if wrong.size else -1
