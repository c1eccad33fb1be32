"""Streams of the caller: torch's current one for torch's tensors, CuPy's for others; and the order of both.

Kernels that read torch's tensors run on torch's current stream, so nothing waits for other work, such as
backward on torch's default stream, and torch may reuse the memory of a tensor that it frees.

Arrays that live longer than a call, such as residuals, may be used on another stream next time. So work on
one stream waits for the library's earlier work on the others. A program with one stream never waits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


class StreamOrder:
    """Order of the library's work on the streams of one device.

    Args:
        cupy: the module.
        number: CUDA's number of the device.
    """

    def __init__(self, cupy: Any, number: int) -> None:
        self._cupy, self._number = cupy, number
        self._ends: dict[int, Any] = {}  # by stream, an event after the last work, or None

    @contextmanager
    def current(self, *, follows_torch: bool = False) -> Iterator[None]:
        """Launch on the caller's stream; the device must be CuPy's current one.

        Args:
            follows_torch: whether that is torch's current stream, if the program has set none in CuPy.
        """
        own = self._cupy.cuda.get_current_stream()
        pointer = find_torch_stream(self._number) if follows_torch and not own.ptr else 0
        stream = self._make(pointer) if pointer else own
        self._wait_for_others(stream)
        try:
            if stream is own:
                yield
            else:
                with stream:
                    yield
        finally:
            if stream is not own:
                own.wait_event(stream.record())  # results may be used there
            if len(self._ends) > 1:
                self._ends[stream.ptr] = stream.record()

    def _make(self, pointer: int) -> Any:
        """Return CuPy's object for a stream; 0 is the default stream."""
        cuda = self._cupy.cuda
        if not pointer:
            return cuda.Stream.null
        if hasattr(cuda.Stream, "from_external"):  # CuPy 14
            return cuda.Stream.from_external(_External(pointer))
        return cuda.ExternalStream(pointer, self._number)

    def _wait_for_others(self, stream: Any) -> None:
        """Make a stream wait for the last work on the others."""
        if stream.ptr not in self._ends:
            if len(self._ends) == 1:  # its work was not recorded, because it was the only one
                (first,) = self._ends
                self._ends[first] = self._make(first).record()
            self._ends[stream.ptr] = None
        for pointer, end in list(self._ends.items()):
            if pointer != stream.ptr and end is not None:
                stream.wait_event(end)


@dataclass(frozen=True)
class _External:
    """Stream of another library, by CUDA's protocol for streams."""

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer


def find_torch_stream(number: int) -> int:
    """Return the pointer of torch's current stream on a device; 0 for the default stream or without torch."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    pointer: int = torch.cuda.current_stream(number).cuda_stream
    return pointer
