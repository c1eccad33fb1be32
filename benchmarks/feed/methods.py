"""Ways to bring weights to servers through one store: whole files, another project's patches, feeds.

Each has a writer, which publishes a state per version, and a reader, whose ``prepare`` fetches the newest
version in a thread while the model is in use, and returns what writes it into the model.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import ml_dtypes
import numpy as np
import torch

import collectives as co
from benchmarks.patches.peers import FORMATS
from wirecodec.arrays import Array

__all__ = ["METHODS", "Method", "Reader", "Store", "Writer"]

PATIENCE = 120.0
"""Seconds that a reader waits for a newer version, and for a store that fails."""
State = Mapping[str, Array]
PEER = next(form for form in FORMATS if form.name == "int32 + values + zstd-1")


@dataclass
class Store:
    """Objects in a bucket.

    Attributes:
        url, options: of fsspec.
        requests, received: so far, in calls and in bytes.
    """

    url: str
    options: dict[str, Any]
    requests: int = 0
    received: int = 0
    _fs: Any = field(default=None, init=False, repr=False)
    _root: str = field(default="", init=False, repr=False)

    def put(self, name: str, data: bytes) -> None:
        """Write an object."""
        fs, root = self._open()
        self.requests += 1
        fs.pipe_file(f"{root}/{name}", data)

    def get(self, name: str) -> bytes | None:
        """Return an object, or None."""
        fs, root = self._open()
        self.requests += 1
        try:
            data: bytes = fs.cat_file(f"{root}/{name}")
        except FileNotFoundError:
            return None
        self.received += len(data)
        return data

    def _open(self) -> tuple[Any, str]:
        """Return the file system and the folder; the thread that asks first connects."""
        if self._fs is None:
            from fsspec.core import url_to_fs

            self._fs, self._root = url_to_fs(self.url, **self.options)
        return self._fs, self._root


class Writer(Protocol):
    """Writer of versions, which are numbered from 0."""

    def publish(self, state: State) -> int:
        """Publish a state, and return the bytes of its objects."""


class Reader(Protocol):
    """Reader of versions, for one model."""

    def prepare(self) -> Callable[[], int]:
        """Wait for a newer version, and return a function that writes it, and returns its number."""

    def traffic(self) -> tuple[int, int]:
        """Return the bytes that have arrived, and the requests, with those that found nothing new."""


@dataclass(frozen=True)
class Method:
    """Way to bring weights to servers.

    Attributes:
        name: in the tables.
        about: what it does, in one sentence.
        write: store -> writer.
        read: (store, model, seconds between two looks) -> reader.
        is_ours: whether it is this library's.
    """

    name: str
    about: str
    write: Callable[[Store], Writer]
    read: Callable[[Store, Any, float], Reader]
    is_ours: bool = False


# Files: an object per version, and the number of the newest one in an object that is overwritten


def _save(state: State) -> bytes:
    """Write a bfloat16 state as ``torch.save`` does."""
    buffer = io.BytesIO()
    torch.save(
        {name: torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) for name, x in state.items()}, buffer
    )
    return buffer.getvalue()


def _read(data: bytes) -> dict[str, Any]:
    """Return the tensors that ``_save`` has written."""
    found: dict[str, Any] = torch.load(io.BytesIO(data), weights_only=True)
    return found


def _view(model: Any) -> dict[str, Array]:
    """Return the tensors of a bfloat16 model as arrays that share its memory."""
    return {
        name: x.detach().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        for name, x in model.state_dict().items()
    }


@dataclass
class _FileWriter:
    """Writer of whole files, or of one and then of patches.

    Attributes:
        store: of the files.
        encode: (old, new) -> patch, or None for whole files.
    """

    store: Store
    encode: Callable[[State, State], bytes] | None
    _version: int = -1
    _held: State | None = None

    def publish(self, state: State) -> int:
        old, self._version = self._held, self._version + 1
        data = _save(state) if self.encode is None or old is None else self.encode(old, state)
        self.store.put(f"versions/{self._version}", data)
        self.store.put("newest", str(self._version).encode())
        self._held = None if self.encode is None else {name: x.copy() for name, x in state.items()}
        return len(data)


@dataclass
class _FileReader:
    """Reader of what ``_FileWriter`` writes.

    Attributes:
        store, model, poll: as ``Method.read`` gets them.
        apply: (patch, model), or None for whole files.
    """

    store: Store
    model: Any
    poll: float
    apply: Callable[[bytes, Any], None] | None
    _version: int = -1

    def prepare(self) -> Callable[[], int]:
        end = time.monotonic() + PATIENCE
        while (newest := int(self.store.get("newest") or -1)) == self._version:
            if time.monotonic() > end:
                raise TimeoutError(f"there is no version after {self._version}")
            time.sleep(self.poll)
        wanted = [newest] if self.apply is None else range(self._version + 1, newest + 1)
        writes = [self._decode(number) for number in wanted]

        def commit() -> int:
            for write in writes:
                write()
            self._version = newest
            return newest

        return commit

    def _decode(self, number: int) -> Callable[[], object]:
        """Fetch a version, and return what writes it into the model."""
        data = self.store.get(f"versions/{number}")
        assert data is not None, f"version {number} is gone"
        if self.apply is None or not number:
            return partial(self.model.load_state_dict, _read(data))
        return partial(self.apply, data, self.model)

    def traffic(self) -> tuple[int, int]:
        return self.store.received, self.store.requests


def _encode_peer(old: State, new: State) -> bytes:
    data: bytes = PEER.encode(old, new, 1)
    return data


def _apply_peer(patch: bytes, model: Any) -> None:
    PEER.apply(patch, _view(model), 1)


# Feeds


@dataclass
class _FeedWriter:
    """Writer of a feed."""

    publisher: co.Publisher

    def publish(self, state: State) -> int:
        before = self.publisher.version
        if self.publisher.publish(state) == before or self.publisher.last is None:
            raise RuntimeError("a step has changed no weight, so there is no version of it")
        return int(self.publisher.last["bytes"])


@dataclass
class _FeedReader:
    """Reader of a feed."""

    subscriber: co.Subscriber
    model: Any

    def prepare(self) -> Callable[[], int]:
        known = self.subscriber.version
        update = self.subscriber.prepare(self.model, timeout=PATIENCE)
        if update.version == known:
            raise TimeoutError(f"there is no version after {known}")
        return update.commit

    def traffic(self) -> tuple[int, int]:
        return self.subscriber.traffic.received, self.subscriber.traffic.requests


def _feed(base: str) -> Method:
    def write(store: Store) -> Writer:
        return _FeedWriter(co.Publisher(store.url, "feed", base=base, storage_options=store.options))

    def read(store: Store, model: Any, poll: float) -> Reader:
        return _FeedReader(co.Subscriber(store.url, "feed", poll=poll, storage_options=store.options), model)

    about = f'`co.Publisher` with `base="{base}"`, and `co.Subscriber`, with their defaults'
    return Method(f'feed, base="{base}"', about, write, read, is_ours=True)


METHODS = {
    method.name: method
    for method in (
        Method(
            "whole files",
            "`torch.save` of the bfloat16 weights, an object per version, and one with the newest number",
            lambda store: _FileWriter(store, None),
            lambda store, model, poll: _FileReader(store, model, poll, None),
        ),
        Method(
            PEER.name,
            "positions and values under Zstandard, an object per version; verl and TRL send them without it",
            lambda store: _FileWriter(store, _encode_peer),
            lambda store, model, poll: _FileReader(store, model, poll, _apply_peer),
        ),
        _feed("unread"),
        _feed("read"),
    )
}
