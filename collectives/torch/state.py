"""State of a Compressor, CLT-k or LocalUpdates as torch tensors, for checkpoints."""

from __future__ import annotations

from typing import Any, Protocol


class _Stateful(Protocol):
    """Object with a state of arrays."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        ...


def torch_state_dict(compressor: _Stateful) -> dict[str, Any]:
    """Return the state of a compressor or of LocalUpdates as {str: torch.Tensor} on the host.

    ``torch.save`` stores it, and ``torch.load`` restores it with its defaults. safetensors stores it, too.
    ``load_state_dict`` of these classes takes tensors and arrays. ``compressor.state_dict()`` has the same
    content as NumPy arrays, which ``torch.load`` does not accept by default.

    Args:
        compressor: a Compressor, a CLTk, or a LocalUpdates.

    Raises:
        ImportError: torch is missing.

    Examples:
        >>> import collectives as co, wirecodec as wc
        >>> compressor = wc.Compressor("topk(0.01) | rice | qsgd")
        >>> torch.save(co.torch_state_dict(compressor), "compressor.pt")  # doctest: +SKIP
        >>> compressor.load_state_dict(torch.load("compressor.pt"))  # doctest: +SKIP
    """
    import numpy as np
    import torch

    return {key: torch.from_numpy(np.asarray(x)) for key, x in compressor.state_dict().items()}
