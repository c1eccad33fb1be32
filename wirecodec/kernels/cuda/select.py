"""Launching ``select.cu``: the elements that pass a rule, as bitmap, ascending indices and values.

A *rule* is two u64 in the device's memory: keys above the first pass, and of those equal to it as many as the
second says. A key is a word without its sign; or the whole word, where what counts is whether it is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import Device, blocks_for

__all__ = ["EVERY", "TILE", "Selected", "Selector", "infinity_of", "magnitude_of", "rule_of"]

TILE = 4096
"""Elements of a block."""
EVERY = 2**32 - 1
"""As many ties as there are."""
_NO_POSITION = 0xFFFFFFFF
_INFINITY: dict[str, int] = {
    "float16": 0x7C00,
    "bfloat16": 0x7F80,
    "float32": 0x7F800000,
    "float64": 0x7FF << 52,
}


def magnitude_of(words: Any) -> int:
    """The mask of a key of unsigned ``words``: all but the sign."""
    return int(2 ** (8 * words.dtype.itemsize - 1)) - 1


def infinity_of(dtype: Any) -> int:
    """The key of infinity of an element type."""
    return _INFINITY[np.dtype(dtype).name]


def rule_of(least: int, ties: int = EVERY) -> Any:
    """A rule, on the host."""
    return np.array([least, ties], np.uint64)


@dataclass(frozen=True, eq=False)
class Selected:
    """What passed, in the device's memory.

    Attributes:
        bitmap: (⌈size/32⌉,) u32, or None where none was wanted.
        indices: (room,) u32, ascending; the first ``found[0]`` of them.
        values: (room,) words, at those.
        found: (2,) u32: how many passed, and the first of them that is not finite, 2^32 - 1 where all are.
    """

    bitmap: Any
    indices: Any
    values: Any
    found: Any

    def count(self, device: Device) -> tuple[int, int | None]:
        """How many passed, and the first that is not finite or None; waits for the device."""
        n, at = device.get(self.found).tolist()
        return int(n), None if at == _NO_POSITION else int(at)


class Selector:
    """The memory that selecting takes, for arrays of up to ``size`` words; it may be used again and again."""

    def __init__(self, device: Device, size: int, words: Any, room: int, *, bitmap: bool = False) -> None:
        if size >= 2**31:
            raise ValueError(f"{size} elements; a kernel takes fewer than 2^31")
        self._device = device
        self._states = device.empty(max(blocks_for(size, TILE), 1), np.uint64)
        self._tickets = device.empty(1, np.uint32)
        self._fresh = device.put(np.array([0, _NO_POSITION], np.uint32))
        self.result = Selected(
            device.empty(-(-size // 32), np.uint32) if bitmap else None,
            device.empty(room, np.uint32),
            device.empty(room, words),
            device.put(np.array([0, _NO_POSITION], np.uint32)),
        )

    def select(
        self,
        words: Any,
        rule: Any,
        *,
        mask: int,
        infinity: int = 0,
        count: Any = None,
        numbers: Any = None,
        gate: Any = None,
    ) -> Selected:
        """Launch; ``result`` is what it will hold.

        Args:
            words: (n,) u16, u32 or u64.
            rule: (2,) u64.
            mask: of a key.
            infinity: its key, where what is not finite is to be found.
            count: (1,) u32, how many of ``words`` there are; None for all.
            numbers: (n,) u32, what the elements are called; None for 0, 1, ….
            gate: (1,) u64; nothing is done where it is 0.
        """
        size = np.uint32(words.size)
        given = gate, words, size, count, numbers, np.uint64(mask), np.uint64(infinity), rule
        return self._launch(f"select_u{8 * words.dtype.itemsize}", words.size, given)

    def select_sum(self, gradient: Any, residual: Any, rest: Any, rule: Any) -> Selected:
        """The same of gradient + residual (float32 or float64); ``rest`` gets the sums, 0 where one passes.

        ``rest`` holds unsigned words of their width, and may share its memory with ``residual``. What is not
        finite is looked for.
        """
        infinity = np.uint64(infinity_of(gradient.dtype))
        given = gradient, residual, rest, np.uint32(gradient.size), infinity, rule
        return self._launch(f"select_sum_f{8 * gradient.dtype.itemsize}", gradient.size, given)

    def _launch(self, kernel: str, size: int, given: tuple[Any, ...]) -> Selected:
        """With what is given, and then what every selection writes."""
        made = self.result
        self._device.clear(self._states)
        self._device.clear(self._tickets)
        self._device.copy(self._fresh, made.found)
        room = np.uint32(made.indices.size)
        written = made.bitmap, made.indices, made.values, room, self._states, self._tickets, made.found
        self._device.launch("select", kernel, max(blocks_for(size, TILE), 1), *given, *written)
        return made
