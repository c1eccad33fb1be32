"""Prepared: an encoded step of a Compressor that is committed or rolled back after its exchange."""

from __future__ import annotations

from wirecodec.arrays import Bytes
from wirecodec.compressor.holder import StateHolder
from wirecodec.compressor.state import State
from wirecodec.step import StepResult


class Prepared:
    """Encoded step that waits for ``commit`` or ``rollback``; one of them is called once.

    Attributes:
        blob: the container to send, (n,) uint8 on the gradients' device.
        sent: {name: SparseTensor} as receivers decode it, on the gradients' device. bfloat16 is on the host,
            because CuPy does not have it.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> prepared = wc.Compressor("topk(k=1) | rice | raw").prepare({"w": np.array([1, 3], "f4")})
        >>> prepared.commit()
        >>> prepared.sent["w"].to_dense()
        array([0., 3.], dtype=float32)
    """

    def __init__(self, result: StepResult, holder: StateHolder, before: State, after: State) -> None:
        self.blob = self._encoded = result.blob
        self._blob_on_host = None if result.blob_on_host is result.blob else result.blob_on_host
        self.sent = result.sent
        self._holder = holder
        self._before = before
        self._after: State | None = after

    @property
    def sends_what_it_encoded(self) -> bool:
        """Whether ``blob`` is still the encoded container, whose tensors are ``sent``."""
        return self.blob is self._encoded

    @property
    def blob_on_host(self) -> Bytes:
        """The container on the host. Decoding a container on a GPU made this copy."""
        return self.blob if self._blob_on_host is None else self._blob_on_host

    def __repr__(self) -> str:
        """Return the sizes, and the state: open or closed."""
        state = "open" if self._after is not None else "closed"
        return f"Prepared({self.blob.nbytes} bytes, {len(self.sent)} tensors, {state})"

    def commit(self) -> None:
        """Replace the compressor's state by the one after this step. Call it if the exchange succeeded.

        Raises:
            RuntimeError: this step was closed before, or another one was committed since it was prepared.
        """
        after, holder = self._after, self._holder
        if after is None or (holder.state is not self._before and holder.state is not after):
            raise RuntimeError("this step was closed before, or another one was committed since")
        # An interrupt may come between any two lines. ``rollback`` undoes this until ``_after`` is None.
        holder.state = after
        self._after = None
        holder.memory.advance(self._before, after)

    def rollback(self) -> None:
        """Drop this step. Call it if the exchange failed: the next step starts from the same residuals.

        It also undoes a ``commit`` that was interrupted.

        Raises:
            RuntimeError: this step was closed before.
        """
        after, holder = self._after, self._holder
        if after is None:
            raise RuntimeError("this step was closed before")
        was_committed = holder.state is after
        if was_committed:
            holder.state = self._before
        self._after = None
        # Memory is reused only if no other step, and no copy of the compressor, holds these residuals.
        if holder.state is self._before and not was_committed:
            holder.memory.take_back(self._before, after)
