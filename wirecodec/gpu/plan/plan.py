"""Plan: encoding on a GPU, step after step, without a word from the host in between.

``encode`` launches kernels on the current stream, always the same ones, in memory that was allocated when the
plan was made; so a CUDA graph can capture it. ``Pending.get`` is the one place that waits, for 24 bytes. The
bytes are those of ``wirecodec.encode``.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from wirecodec.arrays import Bytes, dtype_named
from wirecodec.container import extension as ext
from wirecodec.errors import EncodeError
from wirecodec.scheme import Scheme, SchemeLike, as_scheme
from wirecodec.validation import as_integer, as_seed

__all__ = ["Pending", "Plan"]


class Plan:
    """What it takes to encode tensors of one shape and type on the current GPU, allocated and compiled.

    It serves one stream at a time, and one container: each ``encode`` overwrites that of the last. A graph
    that captured it works on its memory and on the tensor: keep plan and tensor as long as the graph.

    Args:
        shape: of the tensors; a number for one dimension. 1 to 2^31 - 1 elements.
        dtype: float32, float16, bfloat16 or float64.
        scheme: of the selectors all, nonzero, threshold, topk, dgc and adacomp; the index codecs raw-index,
            bitmap, rice and elias-fano, and, after topk and of 2^24 elements at most, bloom of policy p0 or
            p1; the value codecs raw (of every type), qsgd, offset-float and sign-scale.
        tag: bytes of the application's own.
        most: under nonzero, threshold and adacomp, and in a bloom filter, how many elements there is memory
            for; None for all. Where there are more, ``Pending.get`` encodes anew, in new memory.

    Raises EncodeError where there can be no such plan, DeviceError where there is no GPU.
    """

    def __init__(
        self,
        shape: int | Iterable[int],
        dtype: Any,
        scheme: SchemeLike,
        *,
        tag: bytes = b"",
        most: int | None = None,
    ) -> None:
        from wirecodec.gpu.plan import entry

        self._shape = _as_shape(shape)
        self._dtype, self._scheme = dtype_named(dtype), as_scheme(scheme)
        room = 2**31 if most is None else as_integer(most, "a plan: most")
        if room < 1:
            raise EncodeError(f"a plan: most is {room}; it must be 1 or more")
        tag = bytes(memoryview(tag))
        self._plan = entry.planned(self._shape, self._dtype, self._scheme, tag, room)
        self._runs = 0

    def __repr__(self) -> str:
        """Shape, type, scheme."""
        return f"Plan({self._shape}, {self._dtype}, {str(self._scheme)!r})"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensors."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Their element type."""
        return self._dtype

    @property
    def scheme(self) -> Scheme:
        """How they are encoded."""
        return self._scheme

    @property
    def seed(self) -> Any:
        """(1,) uint64 on the GPU, 0 at first: what codecs that draw at random draw from.

        It is read when the kernels run; a captured graph draws from what stands there at each launch.
        """
        return self._plan.seed

    def reseed(self, seed: int) -> None:
        """Launch a kernel that sets ``seed``. A graph that captures it sets the same at each launch."""
        from wirecodec.gpu.plan import entry

        entry.reseed(self._plan, as_seed(seed))

    def encode(self, tensor: Any, *, seed: int | None = None) -> Pending:
        """Launch everything on the current stream, and wait for nothing.

        Args:
            tensor: a CuPy array, a torch CUDA tensor, or what else lies on the GPU, contiguous, of the plan's
                shape and type.
            seed: given to ``reseed`` first; None for what stands in ``seed``.

        Raises EncodeError for another tensor. What is wrong with its elements ``Pending.get`` says.
        """
        from wirecodec.gpu.plan import entry

        seed = None if seed is None else as_seed(seed)
        flat = entry.in_place(tensor)
        if (flat.shape, flat.dtype) != (self._shape, self._dtype):
            wanted, given = f"{self._dtype} of {self._shape}", f"{flat.dtype} of {flat.shape}"
            raise EncodeError(f"the plan is for {wanted}, the tensor is {given}")
        entry.run(self._plan, flat.words, seed)
        self._runs += 1
        return Pending(self, flat.words, self._runs)


class Pending:
    """A container that is being made; where a graph captured it, that of the graph's last launch."""

    def __init__(self, plan: Plan, words: Any, run: int) -> None:
        self._plan, self._words, self._run = plan, words, run

    def get(self) -> Bytes:
        """The container, a uint8 CuPy array that lies in the plan's memory: good until that encodes anew.

        Waits for the current stream, which is to be the one that ``encode`` or the graph was launched on, and
        copies the container's length. The tensor must hold what it held. Raises EncodeError as
        ``wirecodec.encode`` does; ValueError where the plan has begun another container since.
        """
        from wirecodec.gpu.plan import entry

        if self._run != self._plan._runs:
            raise ValueError("the plan has begun another container since")
        return entry.written(self._plan._plan, self._words)


def _as_shape(shape: int | Iterable[int]) -> tuple[int, ...]:
    """EncodeError where it is none."""
    try:
        dims = tuple(map(operator.index, shape if isinstance(shape, Iterable) else (shape,)))
    except TypeError:
        raise EncodeError(f"a plan: {shape!r} is no shape") from None
    if any(n < 0 for n in dims):
        raise EncodeError(f"a plan: {shape!r} is no shape")
    ext.check_shape(dims)
    return dims
