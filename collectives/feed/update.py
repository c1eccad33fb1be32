"""Update: a version that was fetched and checked, before it is written into a state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from collectives.feed.record import Version
from wirecodec.interop import PreparedPatch


@dataclass(frozen=True, eq=False)
class Update:
    """Newest version of a feed, fetched and checked; ``commit`` writes it into the state.

    An inference engine whose weights are others than those of the state, such as fused ones on a GPU, gets
    them from ``tensors`` or ``changes``. Both hold one tensor in memory at a time, and can be called again:
    until ``commit``, and after it until the state changes once more.

    Examples:
        >>> import collectives as co, tempfile, numpy as np
        >>> folder = tempfile.mkdtemp()
        >>> publisher, reader = co.Publisher(folder, "demo"), co.Subscriber(folder, "demo")
        >>> state, weights = {}, {"a": np.zeros(999, "f4"), "b": np.zeros(2, "f4")}
        >>> version, version = publisher.publish(weights), reader.update(state)
        >>> weights["a"][7] = 1
        >>> version, update = publisher.publish(weights), reader.prepare(state)
        >>> [(name, tensor.shape) for name, tensor in update.tensors()]
        [('a', (999,))]
        >>> list(update.changes())
        [('a', array([7], dtype=int32), array([1.], dtype=float32))]
        >>> update.commit(), state["a"][7]
        (1, np.float32(1.0))
    """

    _record: Version
    _state: Any
    _tensors: dict[str, Any]
    _prepared: PreparedPatch
    _commit: Callable[[Update], object]

    @property
    def version(self) -> int:
        """Number of the version."""
        return self._record.number

    @property
    def changed(self) -> int:
        """Number of elements that ``commit`` writes."""
        return count_changed(self._prepared)

    def tensors(self) -> Iterator[tuple[str, Any]]:
        """Return an iterator of the name and the whole new tensor of each tensor that changes.

        A tensor has memory of its own. It is of the framework and on the device of the state's tensors. From
        an empty dictionary, all tensors are new, as arrays.
        """
        return ((write.name, write.make_like(self._tensors)) for write in self._prepared.writes)

    def changes(self) -> Iterator[tuple[str, Any, Any]]:
        """Return an iterator of the name, the positions and the new values of the elements that change.

        Positions are (r,) ascending and int32, or int64 for more than 2^31 elements, in the flattened tensor.
        A tensor that an anchor replaces, or of which a fifth of the elements or more change, may have all of
        them. Both are torch tensors on the device of the state's if that is one, else arrays.

        Raises:
            ValueError: a tensor is new, or has another shape or type than that of the state.
        """
        for write in self._prepared.writes:
            if write.replaces(self._tensors):
                raise ValueError(
                    f"tensor {write.name!r} is new, or has another shape or type than that of the state, so"
                    " that it has no elements to change; use tensors()"
                )
        return ((write.name, *write.find_elements(self._tensors)) for write in self._prepared.writes)

    def commit(self) -> int:
        """Write the version into the state, which nobody may have changed, and return its number.

        After an exception, the state is as it was.
        """
        self._commit(self)
        return self.version


def count_changed(prepared: PreparedPatch) -> int:
    """Return the number of elements that a commit writes."""
    return sum(write.values.size for write in prepared.writes)
