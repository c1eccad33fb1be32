"""A rank's share of a CLT-k step, of one tensor: x = residual + gradient, and what becomes of it.

A share is kept where the gradient lies. The host's is here, and defines the bits; that on a GPU
(``wirecodec.gpu.contribution``) has the same. ``cltk`` does not ask which it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import wirecodec as wc
from collectives.device import place_of
from collectives.transport.reduce import Dense
from wirecodec.arrays import as_flat
from wirecodec.select.base import require_finite

__all__ = ["HostShare", "Picked", "Share", "device_share", "here"]


class Picked(Protocol):
    """What is sent of a share."""

    @property
    def values(self) -> Dense:
        """(k,) on the host, of the gradient's type."""
        ...

    def remainder(self) -> Any:
        """The next residual (size,), as ``cltk``'s formula has it, where the gradient lies.

        x is used up; ``values``, which are sent afterwards, are not changed.
        """
        ...

    def dense(self, means: Dense) -> Any:
        """(size,), the (k,) means where they belong and 0 elsewhere, where the gradient lies.

        On a GPU these are unsigned words.
        """
        ...


class Share(Protocol):
    """One tensor's residual + gradient."""

    def top(self, selector: wc.TopK) -> Dense | None:
        """Indices of the top k, ascending, on the host; None for all."""
        ...

    def picked(self, where: Dense | None) -> Picked:
        """What is sent of it: the elements at the host's (k,) indices, or all."""
        ...


@dataclass(frozen=True, eq=False)
class HostShare:
    """On the host.

    Attributes:
        rule: how what was not sent is kept.
        gradient: this step's, flat.
        residual: as many, or None.
        x: their sum, finite; the gradient itself where that is all of it.
    """

    rule: wc.ErrorFeedback
    gradient: Dense
    residual: Dense | None
    x: Dense

    @classmethod
    def of(cls, rule: wc.ErrorFeedback, gradient: Any, residual: Dense | None) -> HostShare:
        """Their sum; EncodeError where it is not finite, or the residual has another size."""
        flat = as_flat(gradient).data
        if residual is not None and residual.size != flat.size:
            raise wc.EncodeError(f"{flat.size} elements; the residual has {residual.size}")
        x = rule.corrected(flat, residual)
        require_finite(x, "clt-k")
        return cls(rule, flat, residual, x)

    def top(self, selector: wc.TopK) -> Dense | None:
        """As of a Share."""
        return selector.select(self.x).indices

    def picked(self, where: Dense | None) -> HostPicked:
        """As of a Share."""
        return HostPicked(self, where, self.rule.sendable(_at(self.x, where), self.gradient.dtype))


@dataclass(frozen=True, eq=False)
class HostPicked:
    """On the host; ``values`` at the indices ``where``, or all."""

    share: HostShare
    where: Dense | None
    values: Dense

    def remainder(self) -> Dense:
        """As of a Picked."""
        share, where = self.share, self.where
        x, gradient, residual = share.x, share.gradient, share.residual
        beta = x.dtype.type(share.rule.beta)
        rest: Dense = _at(x, where) - self.values.astype(x.dtype, copy=False)
        if beta < 1:
            rest *= beta
            if residual is not None:
                rest += (1 - beta) * _at(residual, where)
        if where is None:  # the values may be x itself, which is sent only now
            return rest
        left = x.copy() if residual is None else x  # or x may be the caller's own gradient
        if beta < 1:
            np.multiply(gradient, beta, out=left, casting="same_kind")
            if residual is not None:
                left += residual
        left[where] = rest
        return left

    def dense(self, means: Dense) -> Dense:
        """As of a Picked."""
        if self.where is None:
            return means
        out = np.zeros(self.share.gradient.size, self.share.gradient.dtype)
        out[self.where] = means
        return out


def device_share(
    rule: wc.ErrorFeedback, gradient: Any, residual: Any, last: dict[str, Any], name: str
) -> Share | None:
    """Of a gradient that lies on a GPU; None where the host must look at it.

    Args:
        rule: how what was not sent is kept.
        gradient: on a GPU.
        residual: (size,), wherever it lies, or None.
        last: where the searches for each tensor's top k ended; filled in.
        name: the tensor's.
    """
    from wirecodec.gpu import contribution
    from wirecodec.gpu.select.warm_topk import LastTop

    return contribution.share(rule, gradient, residual, last.setdefault(name, LastTop()))


def here(residual: Any) -> Any:
    """A residual on the host, copied completely where it lies on a GPU; None for None."""
    place = None if residual is None else place_of(residual)
    if place is None:
        return residual
    from wirecodec.gpu import entry

    place.settle()
    return entry.on_host(residual)


def _at(x: Dense, where: Dense | None) -> Dense:
    found: Dense = x if where is None else x[where]
    return found
