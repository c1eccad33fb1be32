"""The emulator as a stream that can be captured: launches are recorded, to be run again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.gpu_emulated.emulator import Emulator
from tests.inputs import Array

__all__ = ["Graph", "Recorder"]


class Graph:
    """Recorded launches with their arguments, as CuPy's graph."""

    def __init__(self) -> None:
        self.nodes: list[Callable[[], None]] = []

    def launch(self, stream: Any = None) -> None:
        """Run all launches in order."""
        for node in self.nodes:
            node()


class Recorder(Emulator):
    """Emulator that can record.

    Between ``begin_capture`` and ``end_capture`` nothing runs, and any call that a graph cannot hold raises
    AssertionError.
    """

    def __init__(self, *settings: int) -> None:
        super().__init__(*settings)
        self._graph: Graph | None = None

    def begin_capture(self) -> None:
        """Start recording."""
        self._graph = Graph()

    def end_capture(self) -> Graph:
        """Stop recording and return the graph."""
        assert self._graph is not None
        found, self._graph = self._graph, None
        return found

    def empty(self, size: int, dtype: Any) -> Array:
        """Allocate; raises AssertionError during a capture, as does ``put``."""
        assert self._graph is None, "memory was allocated"
        return super().empty(size, dtype)

    def get(self, array: Array) -> Array:
        """Copy to the host; raises AssertionError during a capture."""
        assert self._graph is None, "the host waited"
        return super().get(array)

    def clear(self, array: Array) -> None:
        """Set all bytes to 0; raises AssertionError during a capture."""
        assert self._graph is None, "not a kernel"
        super().clear(array)

    def copy(self, source: Array, target: Array) -> None:
        """Copy; raises AssertionError during a capture."""
        assert self._graph is None, "not a kernel"
        super().copy(source, target)

    def launch(self, source: str, kernel: str, blocks: int, *arguments: Any) -> None:
        """Run or record a launch."""
        call = partial(super().launch, source, kernel, blocks, *arguments)
        if self._graph is None:
            call()
        else:
            self._graph.nodes.append(call)
