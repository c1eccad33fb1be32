"""``Plan`` and ``Pending``: repeated encoding on a GPU that a CUDA graph can capture. Experimental.

``Plan.encode`` always launches the same kernels, in memory that was allocated when the plan was made.
``Pending.get`` is the only call that waits, for 24 bytes. The bytes are those of ``wirecodec.encode``.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from wirecodec.arrays import Bytes, dtype_named
from wirecodec.container import extension_writer as ext
from wirecodec.errors import EncodeError
from wirecodec.settings.scheme import Scheme, SchemeLike, as_scheme
from wirecodec.validation import as_integer, as_seed

__all__ = ["Pending", "Plan"]


class Plan:
    """Pre-allocated encoder for tensors of one shape and dtype on the current GPU. Experimental.

    Warning:
        This class has not been measured on hardware. Its kernels compile for real architectures, but the
        tests run them in an emulator on the CPU. The interface may change until the class has been measured.

    A plan serves one stream at a time and holds one container: each ``encode`` overwrites the last one. A
    CUDA graph that captured ``encode`` uses the memory of the plan and of the tensor. Keep both as long as
    the graph.

    Args:
        shape: of the tensors; an integer for one dimension. 1 to 2^31 - 1 elements.
        dtype: float32, float16, bfloat16 or float64.
        scheme: how the tensors are encoded. Supported are the selectors all, nonzero, threshold, topk, dgc
            and adacomp; the index codecs raw-index, bitmap, rice, elias-fano and bloom; and the value codecs
            raw, qsgd, offset-float and sign-scale. bloom needs policy p0 or p1, topk, and at most 2^24
            elements.
        tag: bytes of the application, written to each container.
        capacity: number of elements for which memory is allocated, under nonzero, threshold, adacomp and
            bloom; None for all elements. If more are selected, ``Pending.get`` encodes the tensor again in
            new memory.

    Raises:
        EncodeError: if a plan does not support the arguments.
        DeviceError: if there is no GPU.

    Example (needs a GPU)::

        plan = Plan(100_000, "float32", "topk(0.01) | rice | qsgd(bits=4)")
        pending = plan.encode(cupy.ones(100_000, "float32"), seed=1)
        blob = pending.get()  # the bytes of wirecodec.encode with the same scheme and seed
    """

    def __init__(
        self,
        shape: int | Iterable[int],
        dtype: Any,
        scheme: SchemeLike,
        *,
        tag: bytes = b"",
        capacity: int | None = None,
    ) -> None:
        from wirecodec.gpu.plan import entry

        self._shape = _as_shape(shape)
        self._dtype, self._scheme = dtype_named(dtype), as_scheme(scheme)
        kept = 2**31 if capacity is None else as_integer(capacity, "a plan: capacity")
        if kept < 1:
            raise EncodeError(f"a plan: capacity is {kept}; it must be 1 or more")
        tag = bytes(memoryview(tag))
        self._plan = entry.make_plan(self._shape, self._dtype, self._scheme, tag, kept)
        self._runs = 0

    def __repr__(self) -> str:
        """Show shape, dtype and scheme."""
        return f"Plan({self._shape}, {self._dtype}, {str(self._scheme)!r})"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensors."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type of the tensors."""
        return self._dtype

    @property
    def scheme(self) -> Scheme:
        """Scheme of the containers."""
        return self._scheme

    @property
    def seed(self) -> Any:
        """Seed of the random draws, (1,) uint64 on the GPU, 0 at first.

        The kernels read it when they run. So each launch of a captured graph uses the current value.
        """
        return self._plan.seed

    def reseed(self, seed: int) -> None:
        """Launch a kernel that sets ``seed``, in the order of the current stream.

        A graph that captures this call sets the same seed at each launch.

        Args:
            seed: a u64.

        Raises:
            EncodeError: if the seed is not a u64.
        """
        from wirecodec.gpu.plan import entry

        entry.reseed(self._plan, as_seed(seed))

    def encode(self, tensor: Any, *, seed: int | None = None) -> Pending:
        """Launch all kernels on the current stream, without waiting.

        Args:
            tensor: a CuPy array, a torch CUDA tensor or another array on the GPU. It must be contiguous and
                have the plan's shape and dtype.
            seed: a u64 for ``reseed``, which is called first; None to use the current value of ``seed``.

        Returns:
            The container that is being written.

        Raises:
            EncodeError: if the tensor has another shape, dtype or device, or is not contiguous. Invalid
                elements are reported by ``Pending.get``.
        """
        from wirecodec.gpu.plan import entry

        seed = None if seed is None else as_seed(seed)
        flat = entry.as_flat_in_place(tensor)
        if (flat.shape, flat.dtype) != (self._shape, self._dtype):
            expected, actual = f"{self._dtype} of {self._shape}", f"{flat.dtype} of {flat.shape}"
            raise EncodeError(f"the tensor is {actual}; the plan is for {expected}")
        entry.run(self._plan, flat.raw_bits, seed)
        self._runs += 1
        return Pending(self, flat.raw_bits, self._runs)


class Pending:
    """Container that a plan is writing. Experimental, as ``Plan`` is: it has not been measured on hardware.

    If a graph captured ``Plan.encode``, this is the container of the graph's last launch.

    Example (needs a GPU)::

        graph.launch(stream)
        blob = pending.get()
    """

    def __init__(self, plan: Plan, raw_bits: Any, run: int) -> None:
        self._plan, self._raw_bits, self._run = plan, raw_bits, run

    def get(self) -> Bytes:
        """Wait for the current stream and return the container.

        The current stream must be the one on which ``encode`` or the graph was launched. The tensor must
        still have the same elements. The wait copies 24 bytes to the host.

        Returns:
            A uint8 CuPy array in the plan's memory, valid until the plan encodes the next tensor.

        Raises:
            EncodeError: as ``wirecodec.encode`` does, if an element cannot be encoded.
            ValueError: if the plan has started another container.
        """
        from wirecodec.gpu.plan import entry

        if self._run != self._plan._runs:
            raise ValueError("the plan has started another container since")
        return entry.fetch(self._plan._plan, self._raw_bits)


def _as_shape(shape: int | Iterable[int]) -> tuple[int, ...]:
    """Convert a shape to a tuple. Raises EncodeError if it is not one."""
    try:
        dims = tuple(map(operator.index, shape if isinstance(shape, Iterable) else (shape,)))
    except TypeError:
        raise EncodeError(f"a plan: {shape!r} is not a shape") from None
    if any(n < 0 for n in dims):
        raise EncodeError(f"a plan: {shape!r} is not a shape")
    ext.check_shape(dims)
    return dims
