"""Ratios of CLT-k from the cost of each layer."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ratios_by_flops"]


def ratios_by_flops(flops: Mapping[str, float]) -> dict[str, float]:
    """Compute each tensor's ratio by the rule of ScaleCom.

    A tensor with at most 128 operations per element gets ratio 1/400, with less than 196 1/50, else 1/25.

    Args:
        flops: {name: floating-point operations per gradient element}. These are the operations of the
            layer's forward pass, times 2 for the backward pass, divided by its number of parameters.

    Returns:
        {name: ratio}, for ``CLTk``.

    Source:
        Chen et al., 2020, ScaleCom, section 4.

    Examples:
        >>> import collectives as co
        >>> co.ratios_by_flops({"conv": 150, "fc": 64})
        {'conv': 0.02, 'fc': 0.0025}
    """
    return {
        name: 1 / 400 if count <= 128 else 1 / 50 if count < 196 else 1 / 25 for name, count in flops.items()
    }
