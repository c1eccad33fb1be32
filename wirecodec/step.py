"""What a Compressor's step takes and gives, on the host (``host_step``) and on a GPU (``gpu.step``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wirecodec.arrays import Array, Bytes
from wirecodec.feedback import ErrorFeedback
from wirecodec.scheme import Scheme
from wirecodec.sparse import SparseTensor

__all__ = ["Asked", "Done", "Step"]


@dataclass(frozen=True, eq=False)
class Asked:
    """What is to be done with one tensor.

    Attributes:
        scheme: how it is encoded.
        feedback: how what was not sent is kept; None where nothing is.
        residual: (size,), or None.
        state: the selector's, or None.
        seed: of the selection.
        spare: memory of an earlier residual, for the next one.
        last: on a GPU, where the last step's search ended.
    """

    scheme: Scheme
    feedback: ErrorFeedback | None
    residual: Any
    state: Any
    seed: int
    spare: Array | None = None
    last: Any = None


@dataclass(frozen=True, eq=False)
class Step:
    """What is to be done with all.

    Attributes:
        asked: {name: what is to be done with it}, in the order of their keys.
        seed: of what is drawn.
        names: whether the names are written.
        fuse: tensors of at most this many elements share entries.
    """

    asked: Mapping[str, Asked]
    seed: int
    names: bool
    fuse: int


@dataclass(frozen=True, eq=False)
class Done:
    """What came of it.

    Attributes:
        blob: the container, u8, where the tensors lie.
        octets: the same on the host.
        sent: {name: what receivers decode from it}; on a GPU all but bfloat16, which CuPy has not.
        residuals: {name: (size,)}, where the tensors lie, of those that keep one.
        selectors: {name: state} of those that have one.
    """

    blob: Bytes
    octets: Bytes
    sent: Mapping[str, SparseTensor]
    residuals: Mapping[str, Any]
    selectors: Mapping[str, Array]
