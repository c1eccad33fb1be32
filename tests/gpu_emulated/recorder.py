"""The emulator as a stream that can be captured: what is launched is noted, to be run again and again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.gpu_emulated.emulator import Emulator
from tests.inputs import Array

__all__ = ["Graph", "Recorder"]


class Graph:
    """As CuPy's: launches, with the arguments that they had."""

    def __init__(self) -> None:
        self.nodes: list[Callable[[], None]] = []

    def launch(self, stream: Any = None) -> None:
        """All of it, in its order."""
        for node in self.nodes:
            node()


class Recorder(Emulator):
    """From ``begin_capture`` to ``end_capture`` nothing runs, and what a graph cannot hold is an error."""

    def __init__(self, *settings: int) -> None:
        super().__init__(*settings)
        self._graph: Graph | None = None

    def begin_capture(self) -> None:
        """What follows is noted."""
        self._graph = Graph()

    def end_capture(self) -> Graph:
        """What was noted."""
        assert self._graph is not None
        found, self._graph = self._graph, None
        return found

    def empty(self, size: int, dtype: Any) -> Array:
        """AssertionError in a capture; so does ``put``, which allocates."""
        assert self._graph is None, "memory was allocated"
        return super().empty(size, dtype)

    def get(self, array: Array) -> Array:
        """AssertionError in a capture."""
        assert self._graph is None, "the host waited"
        return super().get(array)

    def clear(self, array: Array) -> None:
        """AssertionError in a capture."""
        assert self._graph is None, "not a kernel"
        super().clear(array)

    def copy(self, source: Array, target: Array) -> None:
        """AssertionError in a capture."""
        assert self._graph is None, "not a kernel"
        super().copy(source, target)

    def launch(self, source: str, kernel: str, blocks: int, *arguments: Any) -> None:
        """Or its note."""
        call = partial(super().launch, source, kernel, blocks, *arguments)
        if self._graph is None:
            call()
        else:
            self._graph.nodes.append(call)
