"""Prepared: an encoded step of a Compressor that is committed or rolled back after its exchange."""

from __future__ import annotations

from wirecodec.arrays import Bytes
from wirecodec.compressor.holder import OpenStep, StateHolder
from wirecodec.compressor.state import State
from wirecodec.step import StepResult


class Prepared(OpenStep):
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
        super().__init__(holder, before, after)

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
        state = "open" if self.is_open else "closed"
        return f"Prepared({self.blob.nbytes} bytes, {len(self.sent)} tensors, {state})"

    def _keep_memory(self, before: State, after: State, *, committed: bool) -> None:
        """Reuse the arrays of the state that no step needs any more."""
        memory = self._holder.memory
        (memory.advance if committed else memory.take_back)(before, after)
