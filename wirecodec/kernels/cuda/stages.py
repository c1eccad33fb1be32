"""Blocks of launches for many items, and the names of the kernels for an element type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cuda.device import Device

SUFFIX = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
"""Ends of the kernels' names."""


@dataclass(frozen=True)
class Stage:
    """Blocks of a launch.

    Attributes:
        starts: (items + 1,) u32 on the device, the first block of each item, and the number of all.
        blocks: number of all.
    """

    starts: Any
    blocks: int


def upload(device: Device, blocks: Array) -> Stage:
    """Copy the first blocks of one stage to the device; ``blocks`` is (items,), those of each item."""
    return upload_all(device, {"": blocks})[""]


def upload_all(device: Device, needed: Mapping[str, Array]) -> dict[str, Stage]:
    """Copy the first blocks of several stages to the device, by name."""
    columns = [np.concatenate([[0], np.cumsum(blocks)]).astype(np.uint32) for blocks in needed.values()]
    whole = device.put(np.concatenate(columns))
    stages, at = {}, 0
    for name, column in zip(needed, columns, strict=True):
        stages[name] = Stage(whole[at : at + column.size], int(column[-1]))
        at += column.size
    return stages
