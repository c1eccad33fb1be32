"""Prepared: an encoded step of a Compressor that is committed or rolled back after its exchange."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, aligned
from wirecodec.compressor.holder import OpenStep, StateHolder
from wirecodec.compressor.state import State
from wirecodec.jobs import StepResult


class Prepared(OpenStep):
    """Encoded step that waits for ``commit`` or ``rollback``; one of them is called once.

    Attributes:
        blob: the container to send, (n,) uint8 on the gradients' device.
        sent: {name: SparseTensor} as receivers decode it, on the gradients' device. bfloat16 is on the host,
            because CuPy does not have it.
        seed: of the codecs in this step.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> prepared = wc.Compressor("topk(k=1) | rice | raw").prepare({"w": np.array([1, 3], "f4")})
        >>> prepared.commit()
        >>> prepared.sent["w"].to_dense()
        array([0., 3.], dtype=float32)
    """

    def __init__(
        self, result: StepResult, holder: StateHolder, before: State, after: State, seed: int
    ) -> None:
        self.blob = self._encoded = result.blob
        self._blob_on_host = None if result.blob_on_host is result.blob else result.blob_on_host
        self.sent = result.sent
        self.seed = seed
        self._amend: Callable[[], None] | None = None
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

    @property
    def residuals(self) -> Mapping[str, Any]:
        """{name: (size,) residual} after this step, which is open."""
        assert self._after is not None
        return self._after.residuals

    def own_residual(self, name: str, size: int, dtype: np.dtype[Any]) -> Array:
        """Return a tensor's residual on the host that only this open step holds; zeros if it has none.

        Args:
            name: the tensor's.
            size: number of its elements.
            dtype: of its elements.
        """
        assert self._after is not None
        residual: Array | None = self._after.residuals.get(name)
        if residual is None:
            own = aligned(size, np.result_type(dtype, np.float32))
            own[:] = 0
        elif residual is self._before.residuals.get(name):  # the tensor was held
            own = aligned(size, residual.dtype)
            own[:] = residual
        else:
            return residual
        self._after = replace(self._after, residuals={**self._after.residuals, name: own})
        return own

    @property
    def needs_results(self) -> bool:
        """Whether ``commit`` needs what the exchange delivers."""
        return self._amend is not None

    def amend(self, change: Callable[[], None]) -> None:
        """Let ``commit`` call a function first, which may write into ``own_residual`` and be called again."""
        self._amend = change

    def commit(self) -> None:
        """Replace the state by the one after this step, as ``OpenStep.commit``."""
        if self._amend is not None and self.is_open:
            self._amend()
        super().commit()

    def _keep_memory(self, before: State, after: State, *, committed: bool) -> None:
        """Reuse the arrays of the state that no step needs any more."""
        memory = self._holder.memory
        (memory.advance if committed else memory.take_back)(before, after)
