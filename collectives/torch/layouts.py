"""Layout of means: sparse on all ranks, if the gradient of the parameter has been sparse on a rank.

Optimizers depend on it: SparseAdam takes sparse gradients only. Headers tell that a rank has a sparse
gradient of which the others do not know. After that exchange, the ranks gather the names. They remember them
with the channel, so a model has one more exchange, mostly in its first step.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from collectives.call import counted
from collectives.channel import Channel
from collectives.sites.gather import gather_all
from collectives.sites.sites import Sites

_DENSE = 1 << 30  # dimensions, more than any tensor has


class SparseLayouts:
    """Parameters of which a rank has had a sparse gradient, the same on all ranks.

    Args:
        ends: of this rank.
        names: of all parameters.
    """

    def __init__(self, ends: Channel | Sites, names: Collection[str]) -> None:
        self._ends = ends
        self._channels = [channel for channel, _ in ends.channels()]
        for channel in self._channels:
            channel.has_new_sparse = False
        self._known = self._channels[0].sparse_layouts.setdefault(tuple(names), {})
        self._new: dict[str, int] = {}

    def announce(self, gradients: Mapping[str, Any]) -> None:
        """Tell the other ranks, by the next headers, if a gradient is sparse of which they do not know that.

        Args:
            gradients: {name: torch tensor} of this rank.
        """
        self._new = {
            name: gradient.sparse_dim()
            for name, gradient in gradients.items()
            if not is_dense(gradient) and gradient.sparse_dim() < self._known.get(name, _DENSE)
        }
        self._channels[0].has_new_sparse |= bool(self._new)

    def learn(self) -> None:
        """Gather what is new on a rank, if there is any; all ranks call this together, after an exchange."""
        if self._channels[0].has_new_sparse:
            self._gather()

    @counted(lambda self: self._ends, is_exclusive=False)
    def _gather(self) -> None:
        for blob in gather_all(self._ends, lambda: json.dumps(self._new).encode()):
            for name, dimensions in json.loads(blob).items():
                self._known[name] = min(dimensions, self._known.get(name, dimensions))

    def apply(self, means: Mapping[str, Any]) -> dict[str, Any]:
        """Return means in the layout that they have on all ranks."""
        return {name: self._convert(mean, self._known.get(name)) for name, mean in means.items()}

    def _convert(self, mean: Any, dimensions: int | None) -> Any:
        if dimensions is None or (not is_dense(mean) and mean.sparse_dim() == dimensions):
            return mean
        return mean.to_dense().to_sparse(dimensions)


def find_sparse(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of named torch tensors that are sparse."""
    import torch

    return {name: x for name, x in tensors.items() if x.layout is not torch.strided}


def is_dense(tensor: Any) -> bool:
    """Return whether a torch tensor is dense."""
    import torch

    return bool(tensor.layout is torch.strided)
