"""One training step under DistributedDataParallel: the exchange of its buckets, and its outcome.

    overlapping   each bucket is exchanged by the channel's thread while backward computes the next ones;
                  a small first one, as DDP's own, waits for the next; another thread encodes a bucket while
                  the one before it is on its way
    otherwise     all buckets are exchanged at once by the caller, after the last one

In both cases, no bucket is handed back before the last one is exchanged. If one has an error or a NaN, all
gradients of the step become NaN, and the compressor takes no step. All ranks exchange the same buckets in
the same order, and learn of the same errors, so they decide alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any

from collectives.channel import Channel
from collectives.errors import CollectiveError
from collectives.exchange.encoding import read_on_host
from collectives.sites.sites import Sites
from collectives.torch.ahead import EncoderAhead
from collectives.torch.gradients import Gradients
from collectives.torch.layouts import find_sparse, is_dense
from collectives.torch.parts import PartDriver, PartSettings
from collectives.torch.scaling import LossScale
from collectives.torch.side_stream import SideStreams
from wirecodec.interop import Latch

MIN_FIRST = 2**19
"""Elements of a first bucket that is exchanged by itself; DDP's has 1 MiB. An exchange costs about 2 ms."""


@dataclass(frozen=True, eq=False)
class Settings:
    """Settings of a hook.

    Attributes:
        exchange: of the parts of a step.
        channel: of this rank.
        names: {id(parameter): name}.
        trainable: ids of the parameters that have gradients.
        streams: of the thread that exchanges buckets.
        ahead: encodes buckets before their turn; None if no bucket is exchanged alone.
    """

    exchange: PartSettings
    channel: Channel | Sites
    names: Mapping[int, str]
    trainable: Set[int]
    streams: SideStreams = field(default_factory=SideStreams)
    ahead: EncoderAhead | None = None


class TrainingStep:
    """Exchange of one step's buckets.

    Args:
        settings: of the hook.

    Attributes:
        error: the exception of the exchange, or None; valid after ``wait``.
    """

    def __init__(self, settings: Settings) -> None:
        self.error: BaseException | None = None
        self._settings = settings
        self._buckets: list[Any] = []
        self._ids: set[int] = set()  # of the parameters in buckets whose number is 0
        self._futures: list[Any] = []
        self._written: list[Any] = []  # an event per bucket
        self._waiting: list[Any] = []  # buckets that are exchanged with the next one
        self._driver = PartDriver(settings.exchange)
        self._encoded: dict[int, Latch] = {}  # by number of the bucket that is encoded ahead
        self._sparse: dict[str, Any] = {}  # means of sparse gradients
        self._finished = Latch()

    def takes(self, bucket: Any) -> bool:
        """Return whether a bucket goes on with this step. Otherwise it begins another.

        Bucket 0 begins a step, because an interrupted backward pass may have left one. But torch gives the
        number 0 to all buckets of a static graph's first step, and says of none that it is the last.
        """
        return bucket.index() > 0 or not (
            self._finished.is_set() or self._ids & {id(parameter) for parameter in bucket.parameters()}
        )

    def place(self, bucket: Any) -> tuple[int, bool]:
        """Return the number of the next bucket in this step, and whether it is the last one."""
        number = len(self._buckets)
        if bucket.index() == 0:
            self._ids |= {id(parameter) for parameter in bucket.parameters()}
        is_unnumbered = number > bucket.index()
        is_last = self._settings.trainable <= self._ids if is_unnumbered else bucket.is_last()
        return number, is_last

    def add(self, bucket: Any) -> Any:
        """Add the next bucket; return the future of its buffer."""
        import torch

        buffer = bucket.buffer()
        future: Any = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else None)
        self._buckets.append(bucket)
        self._futures.append(future)
        self._written.append(self._settings.streams.mark(buffer) if buffer.is_cuda else None)
        return future

    def encode_ahead(self, number: int) -> None:
        """Begin to encode a bucket, if it is not the first that is exchanged. Call it before its exchange."""
        settings, buffer = self._settings, self._buckets[number].buffer()
        part = number - (self._buckets[0].buffer().numel() < MIN_FIRST)
        takes = isinstance(settings.channel, Channel) and settings.exchange.scaler is None
        ahead = settings.ahead
        if ahead is not None and part > 0 and takes and is_dense(buffer) and not buffer.is_cuda:
            self._encoded[number] = ahead.submit(self, partial(self._encode_part, number, part))

    def _encode_part(self, number: int, part: int) -> None:
        settings = self._settings
        gradients = Gradients(_name_gradients([self._buckets[number]], settings.names), LossScale())
        assert self._driver.parts is not None
        assert isinstance(settings.channel, Channel)
        self._driver.parts.encode_ahead(
            part,
            read_on_host(gradients.to_inputs()),
            rank=settings.channel.rank,
            ranks=settings.channel.size,
            hold_zeros=True,
        )

    def exchange_bucket(self, number: int, *, is_last: bool) -> None:
        """Exchange one bucket, and after the last one finish the step. The channel's thread calls this."""
        with self._settings.streams.current():
            self._exchange_next(number, is_last=is_last)

    def _exchange_next(self, number: int, *, is_last: bool) -> None:
        bucket = self._buckets[number]
        self._settings.streams.wait_for(bucket.buffer(), self._written[number])
        if (encoded := self._encoded.get(number)) is not None:
            encoded.wait()
        self._waiting.append(bucket)
        waits = number == 0 and not is_last and bucket.buffer().numel() < MIN_FIRST
        if self._driver.is_exchanged and not waits:
            buckets, self._waiting = self._waiting, []
            self.exchange(buckets)
        if is_last:
            self.finish()

    def wait(self) -> BaseException | None:
        """Wait for the end of the exchange; return an interrupt, or raise a second one at once."""
        try:
            self._finished.wait()
        except BaseException as error:
            self._finished.wait()
            return error
        return None

    @property
    def channel(self) -> Channel | Sites:
        """The channel of the step, or the Sites."""
        return self._settings.channel

    @property
    def is_closed(self) -> bool:
        """Whether the channel was closed, so that no further step can be taken."""
        return self._settings.channel.closed is not None

    def exchange(self, buckets: Sequence[Any] | None = None) -> None:
        """Average the gradients of buckets, or of all, in place, as a part of the step."""
        self._driver.is_exchanged = False
        try:
            collect = partial(_name_gradients, buckets or self._buckets, self._settings.names)
            means = self._driver.average(self._settings.channel, collect, self._begin)
            self._sparse |= find_sparse(means)
        except BaseException as error:
            self.error = self.error or error
        finally:
            self._begin()  # else buckets that are encoded ahead would wait, after an error

    def _begin(self) -> None:
        """Let buckets be encoded ahead."""
        if self._settings.ahead is not None:
            self._settings.ahead.begin(self)

    def finish(self) -> None:
        """Commit the step, or make all gradients NaN; then hand all buckets back, whatever is raised."""
        results: list[Any] = []
        try:
            (self._driver.commit if self._driver.is_exchanged else self._driver.rollback)()
            results = self._collect_results()
        except BaseException as error:
            self.error = self.error or error
        try:
            if self.error is not None and self.is_closed:
                self.error = _add_advice(self.error)
                self._spoil_gradients()
        finally:
            for bucket, future, result in zip_longest(self._buckets, self._futures, results):
                self._hand_back(bucket, future, result)
            self._finished.set()

    def _hand_back(self, bucket: Any, future: Any, result: Any) -> None:
        """Complete the future of a bucket: with its result, or with NaN if there is none."""
        try:
            if result is None:
                result = bucket.buffer()
                (result if is_dense(result) else result.values()).fill_(math.nan)
            future.set_result(result)
        except BaseException as error:
            self.error = self.error or error
            with suppress(Exception):
                future.set_exception(error)

    def _collect_results(self) -> list[Any]:
        """Return the averaged buffer of each bucket.

        If the step failed, gradients are NaN, so that no optimizer uses them unnoticed.
        """
        failed = self.error is not None or not self._driver.is_exchanged
        results = []
        for bucket in self._buckets:
            result = bucket.buffer()
            if not is_dense(result):  # a sparse gradient is in a bucket of its own
                name = self._settings.names.get(id(bucket.parameters()[0]), "")
                result = self._sparse.get(name, result).clone().coalesce()
            if failed:
                (result if is_dense(result) else result.values()).fill_(math.nan)
            results.append(result)
        return results

    def _spoil_gradients(self) -> None:
        """Make the parameters' gradients NaN, because DDP copies no bucket if it cannot complete a step."""
        with suppress(Exception):
            for bucket in self._buckets:
                for parameter in bucket.parameters():
                    if (gradient := parameter.grad) is not None:
                        (gradient if is_dense(gradient) else gradient._values()).fill_(math.nan)


def _name_gradients(buckets: Iterable[Any], names: Mapping[int, str]) -> dict[str, Any]:
    """Return the gradients of buckets by name.

    Raises ValueError for a parameter without a name, or if gradients do not cover their bucket.
    """
    gradients = {}
    for bucket in buckets:
        parameters, buffer = bucket.parameters(), bucket.buffer()
        parts = bucket.gradients() if is_dense(buffer) else [buffer]
        if sum([part.numel() for part in parts]) != buffer.numel():
            raise ValueError(
                f"a bucket has {buffer.numel()} elements, and its gradients have"
                f" {sum(part.numel() for part in parts)}, so some would not be averaged"
            )
        for parameter, gradient in zip(parameters, parts, strict=True):
            if id(parameter) not in names:
                raise ValueError(
                    f"a parameter of shape {tuple(parameter.shape)} is not in named_parameters;"
                    " pass those of the module that DistributedDataParallel wraps"
                )
            gradients[names[id(parameter)]] = gradient.detach()
    return gradients


def _add_advice(error: BaseException) -> BaseException:
    """Return an error of a closed channel with the way to continue, if it is a CollectiveError."""
    if not isinstance(error, CollectiveError):
        return error
    text = (
        f"{error}; DistributedDataParallel cannot continue after this error: delete it, create new process"
        " groups, wrap the model again, and register a new torch_hook with the same compressor"
    )
    advised = type(error)(text, ranks=error.ranks, reason=error.reason)
    advised.__cause__ = error.__cause__
    return advised
