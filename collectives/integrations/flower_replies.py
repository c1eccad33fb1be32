"""Checks of the replies of Flower's clients, which may be hostile, before a strategy reads them.

A reply has an ArrayRecord of the model: a container and the arrays that no container carries, or, from a
client without the mod, all arrays. It has metrics, one of which is the client's weight.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, TypeAlias

import numpy as np

import wirecodec as wc
from collectives.errors import Refused
from collectives.integrations.updates import (
    CONTAINER,
    Array,
    check_finite,
    check_norm,
    decode_update,
    describe_changes,
    is_float,
    shapes_of,
)

STYPE = "wirecodec"
"""The stype of the Array that holds the container."""

_NUMPY = "numpy.ndarray"
_MAX_WEIGHT = 2**53

Signature: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Checks:
    """Conditions on a reply.

    Attributes:
        key: of the ArrayRecord of the model.
        weight: name of the metric that is the client's weight, or None if the strategy uses none.
        limits: of the decoder, or None.
        max_norm: largest norm of a movement, or None.
    """

    key: str
    weight: str | None
    limits: wc.DecodeLimits | None
    max_norm: float | None

    def read(
        self, content: Any, sent: Mapping[str, Array], counters: Collection[str]
    ) -> dict[str, Array] | None:
        """Return the client's arrays, or None if they are in the record already.

        Args:
            content: the RecordDict of the reply.
            sent: {name: array} that the server has sent to this client.
            counters: names of integer arrays of the model, which do not count in the norm. A strategy may
                have averaged them to floats.

        Raises:
            Refused: the reply is not acceptable.
        """
        record = content.array_records.get(self.key)
        if record is None:
            raise Refused("record", f"the reply has no ArrayRecord {self.key!r}")
        self.check_weight(content)
        container = record.get(CONTAINER)
        plain = {
            name: _read_array(name, x, sent[name].shape if name in sent else None)
            for name, x in record.items()
            if name != CONTAINER
        }
        check_finite(plain)
        moved = {}
        if self.max_norm is not None:
            moved = {
                name: x.astype(np.float64) - sent[name].astype(np.float64)
                for name, x in plain.items()
                if is_float(sent[name].dtype) and name not in counters
            }
        if container is None:
            changes = describe_changes(shapes_of(sent), shapes_of(plain))
            if changes:  # shapes are equal
                raise Refused("schema-names", f"the arrays are not those of the model: {changes}")
            check_norm(moved, self.max_norm)
            return None
        return self._decode(container, plain, moved, sent)

    def check_weight(self, content: Any) -> None:
        """Raise Refused unless the only MetricRecord has a weight that a mean can be taken with."""
        if self.weight is None:
            return
        records = list(content.metric_records.values())
        if len(records) != 1:
            raise Refused("record", f"the reply has {len(records)} MetricRecords; it must have one")
        weight = records[0].get(self.weight)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= _MAX_WEIGHT:
            text = f"the metric {self.weight!r} is {weight!r}; it must be above 0 and at most 2^53"
            raise Refused("weight", text)

    def _decode(
        self,
        container: Any,
        plain: Mapping[str, Array],
        moved: Mapping[str, Array],
        sent: Mapping[str, Array],
    ) -> dict[str, Array]:
        """Return the model of a client whose movements are in a container."""
        if container.stype != STYPE:
            raise Refused("record", f"the container has stype {container.stype!r}; it must be {STYPE!r}")
        for name, before in sent.items():
            if name not in plain and not is_float(before.dtype):
                raise Refused("schema-names", f"the array {name!r} is missing; no container carries it")
        schema = {name: (x.shape, x.dtype) for name, x in sent.items() if name not in plain}
        movements = decode_update(container.data, schema, self.limits, self.max_norm)
        if moved:
            check_norm({**movements, **moved}, self.max_norm)
        with np.errstate(all="ignore"):
            model = {
                name: plain[name]
                if name in plain
                else np.asarray(before + movements[name]).astype(before.dtype, copy=False)
                for name, before in sent.items()
            }
        check_finite(model)
        return model


def _read_array(name: str, x: Any, shape: tuple[int, ...] | None) -> Array:
    """View a plain Array of a stranger; NumPy's own reader would allocate any size that a header claims.

    Raises Refused if it is not an array of numbers of the given shape.
    """
    if shape is None:
        raise Refused("schema-names", f"the model has no array {name!r}")
    if x.stype != _NUMPY:
        raise Refused("array", f"the array {name!r} has stype {x.stype!r}; it must be {_NUMPY!r}")
    stream = BytesIO(x.data)
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        claimed, is_fortran, dtype = read[version](stream)
    except Exception as error:  # the parser of Python's literals raises many kinds
        raise Refused("array", f"the array {name!r} has no valid header: {type(error).__name__}") from error
    if claimed != shape:
        raise Refused("schema-shape", f"the array {name!r} has shape {claimed}; the model has {shape}")
    if dtype.kind not in "biuf":
        raise Refused("schema-dtype", f"the array {name!r} is {dtype}, which is no number")
    data = memoryview(x.data)[stream.tell() :]
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise Refused("array", f"the array {name!r} has {len(data)} bytes, which do not fit its shape")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")


def signature_of(content: Any) -> Signature:
    """Return the names of a reply's records and metrics, in which Flower's strategies allow no difference."""
    metrics = sorted(
        (name, tuple(sorted((key, len(x) if isinstance(x, list) else -1) for key, x in record.items())))
        for name, record in content.metric_records.items()
    )
    return tuple(sorted(content.array_records)), tuple(metrics)


def most_common(signatures: Sequence[Signature], known: Signature | None) -> Signature | None:
    """Return the signature that most replies have; of equally many the known one, or else the first."""
    counts = Counter(signatures)
    if not counts:
        return known
    highest = max(counts.values())
    if known is not None and counts[known] == highest:
        return known
    return next(one for one in counts if counts[one] == highest)
