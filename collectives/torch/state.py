"""State of a Compressor or CLT-k as torch tensors, for checkpoints."""

from __future__ import annotations

from typing import Any

import wirecodec as wc
from collectives.cltk.allreduce import CLTk

__all__ = ["torch_state_dict"]


def torch_state_dict(compressor: wc.Compressor | CLTk) -> dict[str, Any]:
    """Return a compressor's state as {str: torch.Tensor} on the host.

    ``torch.save`` stores it, and ``torch.load`` restores it with its defaults. safetensors stores it, too.
    ``load_state_dict`` of the compressor takes tensors and arrays. ``compressor.state_dict()`` has the same
    content as NumPy arrays, which ``torch.load`` does not accept by default.

    Args:
        compressor: a Compressor or a CLTk.

    Raises:
        ImportError: torch is missing.

    Examples:
        >>> import collectives as co, wirecodec as wc
        >>> compressor = wc.Compressor("topk(0.01) | rice | qsgd")
        >>> torch.save(co.torch_state_dict(compressor), "compressor.pt")  # doctest: +SKIP
        >>> compressor.load_state_dict(torch.load("compressor.pt"))  # doctest: +SKIP
    """
    import torch

    return {key: torch.from_numpy(x) for key, x in compressor.state_dict().items()}
