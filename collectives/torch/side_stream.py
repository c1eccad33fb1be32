"""Streams of a GPU beside the one of backward, on which a hook's thread works.

On the stream of backward, compression of a bucket would wait for what the host has queued far ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import wirecodec as wc
from wirecodec.interop import gpu_context


class SideStreams:
    """One stream of high priority per GPU of a model; none for a model on the host."""

    def __init__(self) -> None:
        self._streams: dict[Any, Any] = {}

    def mark(self, tensor: Any) -> Any:
        """Return an event at which a tensor is written, or None for one on the host.

        Called by the thread that queues backward, on the stream that writes the tensor.
        """
        import torch

        if not tensor.is_cuda:
            return None
        if tensor.device not in self._streams:
            self._streams[tensor.device] = torch.cuda.Stream(tensor.device, priority=-1)
        parts = [tensor] if tensor.layout is torch.strided else [tensor._indices(), tensor._values()]
        for part in parts:
            part.record_stream(self._streams[tensor.device])
        return torch.cuda.current_stream(tensor.device).record_event()

    def wait_for(self, tensor: Any, event: Any) -> None:
        """Make the stream of a tensor's GPU wait for an event of ``mark``."""
        if event is not None:
            self._streams[tensor.device].wait_event(event)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the streams torch's current ones in this thread, on which kernels for its tensors run, too."""
        import torch

        with ExitStack() as stack:
            for device, stream in self._streams.items():
                stack.enter_context(torch.cuda.stream(stream))
                stack.enter_context(torch_stream(device))
            yield


@contextmanager
def torch_stream(device: Any) -> Iterator[None]:
    """Launch kernels on torch's current stream of a device; does nothing on the host, or without CuPy."""
    with ExitStack() as stack:
        if device.type == "cuda":
            with suppress(wc.DeviceError):  # without CuPy, the host compresses
                stack.enter_context(gpu_context(device.index, follows_torch=True))
        yield
