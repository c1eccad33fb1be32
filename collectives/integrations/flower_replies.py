"""Checks of the replies of Flower's clients, which may be hostile, before a strategy reads them.

A reply has an ArrayRecord of the model: a container and the arrays that no container carries, or, from a
client without the mod, all arrays. It has metrics, one of which is the client's weight.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, TypeAlias

import numpy as np

from collectives.errors import Refused
from collectives.integrations.acceptance import (
    Acceptance,
    Array,
    Model,
    Sent,
    check_finite,
    check_metrics,
    check_weight,
    judge,
    quote,
)
from collectives.integrations.updates import CONTAINER

STYPE = "wirecodec"
"""The stype of the Array that holds the container."""

_NUMPY = "numpy.ndarray"

Signature: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Checks:
    """Conditions on a reply.

    Attributes:
        key: of the ArrayRecord of the model.
        weight: name of the metric that is the client's weight, or None if the strategy uses none.
        loss: name of the metric that is the loss by which the strategy weighs, or None.
        acceptance: conditions on the arrays.
    """

    key: str
    weight: str | None
    loss: str | None
    acceptance: Acceptance

    def read(self, content: Any, model: Model) -> dict[str, Array]:
        """Return the client's arrays, in the types of the model; those that it left out are the server's.

        Args:
            content: the RecordDict of the reply.
            model: that the server has sent to this client.

        Raises:
            Refused: the reply is not acceptable.
        """
        return judge(lambda: self._read(content, model))

    def check_metrics(self, content: Any, *, of_training: bool) -> None:
        """Raise Refused unless the only MetricRecord has finite numbers, and weights for a mean."""
        judge(lambda: self._check_metrics(content, of_training))

    def _read(self, content: Any, model: Model) -> dict[str, Array]:
        record = content.array_records.get(self.key)
        if record is None:
            raise Refused("record", f"the reply has no ArrayRecord {self.key!r}")
        self._check_metrics(content, of_training=True)
        for key, other in content.array_records.items():
            if key != self.key:
                check_finite({name: _read_array(name, x, None) for name, x in other.items()})
        container = record.get(CONTAINER)
        if container is not None and container.stype != STYPE:
            raise Refused("record", f"the container has stype {container.stype!r}; it must be {STYPE!r}")
        plain = {}
        for name, x in record.items():
            if name != CONTAINER:
                if name not in model.arrays:
                    raise Refused("schema-names", f"the model has no array {quote(name)}")
                plain[name] = _read_array(name, x, model.arrays[name].shape)
        sent = Sent(None if container is None else container.data, plain, "model")
        return {**model.arrays, **self.acceptance.accept(sent, model)}

    def _check_metrics(self, content: Any, of_training: bool) -> None:
        records = list(content.metric_records.values())
        if self.weight is not None:
            if len(records) != 1:
                raise Refused("record", f"the reply has {len(records)} MetricRecords; it must have one")
            check_weight(self.weight, records[0].get(self.weight))
        if self.loss is not None and of_training:
            check_weight(self.loss, records[0].get(self.loss) if records else None, least="0 or more")
        for record in records:
            check_metrics("metrics", dict(record))


def _read_array(name: str, x: Any, shape: tuple[int, ...] | None) -> Array:
    """View a plain Array of a stranger; NumPy's own reader would allocate any size that a header claims.

    Raises Refused if it is not an array of numbers, of the given shape if there is one.
    """
    if x.stype != _NUMPY:
        raise Refused("array", f"the array {quote(name)} has stype {quote(x.stype)}; it must be {_NUMPY!r}")
    stream = BytesIO(x.data)
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        claimed, is_fortran, dtype = read[version](stream)
    except Exception as error:  # the parser of Python's literals raises many kinds
        text = f"the array {quote(name)} has no valid header: {type(error).__name__}"
        raise Refused("array", text) from error
    if shape is not None and claimed != shape:
        raise Refused("schema-shape", f"the array {quote(name)} has shape {claimed}; the model has {shape}")
    if dtype.kind not in "biuf":
        raise Refused("schema-dtype", f"the array {quote(name)} is {dtype}, which is no number")
    data = memoryview(x.data)[stream.tell() :]
    if any(n < 0 for n in claimed) or len(data) != math.prod(claimed) * dtype.itemsize:
        raise Refused("array", f"the array {quote(name)} has {len(data)} bytes, which do not fit its shape")
    return np.frombuffer(data, dtype).reshape(claimed, order="F" if is_fortran else "C")


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
