"""Bytes per step of a whole model: all budgets are scaled by one factor to spend them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from wirecodec.arrays import dtype_named
from wirecodec.container.size_bound import max_encoded_bytes
from wirecodec.container.writer import PREFIX_BYTES
from wirecodec.errors import EncodeError
from wirecodec.select.budget import Budget
from wirecodec.settings.scheme import Scheme

__all__ = ["fit_budgets", "raw_bytes"]


def fit_budgets(
    schemes: Mapping[str, Scheme], tensors: Mapping[str, Any], bytes_per_step: float, header: int
) -> dict[str, Scheme]:
    """Scale the bits of all budgets by one factor, so that the container takes a number of bytes.

    Args:
        schemes: {name: scheme}; one without ``budget`` counts as the most bytes that it can take.
        tensors: {name: tensor}.
        bytes_per_step: largest size of the container.
        header: bytes of its header that count for each tensor.

    Returns:
        {name: scheme}, with one object for equal schemes.

    Raises:
        EncodeError: the bytes do not suffice for the tensors without a budget.
    """
    fixed, wanted = 0, 0.0
    for name, tensor in tensors.items():
        size = math.prod(tensor.shape)
        if isinstance(selector := schemes[name].select, Budget):
            wanted += selector.bits * size / 8
        else:
            most = max_encoded_bytes(size, _type_name(tensor), schemes[name])
            fixed += most - PREFIX_BYTES + header
    if not wanted:
        return dict(schemes)
    factor = (bytes_per_step - fixed) / wanted
    if factor <= 0:
        raise EncodeError(
            f"bytes_per_step is {bytes_per_step}; the tensors without a budget may take {fixed} bytes of it"
        )
    scaled: dict[Scheme, Scheme] = {}
    return {name: scaled.setdefault(one, _scale(one, factor)) for name, one in schemes.items()}


def raw_bytes(tensor: Any) -> int:
    """Return the bytes of a tensor's elements."""
    size: int = math.prod(tensor.shape) * dtype_named(_type_name(tensor)).itemsize
    return size


def _type_name(tensor: Any) -> str:
    """Return the name of a tensor's element type, without that of its framework."""
    return str(tensor.dtype).rpartition(".")[2]


def _scale(scheme: Scheme, factor: float) -> Scheme:
    """Return a scheme whose budget is multiplied by a factor."""
    if not isinstance(scheme.select, Budget):
        return scheme
    bits = min(scheme.select.bits * factor, Budget.MAX_BITS)
    return dataclasses.replace(scheme, select=Budget(bits))
