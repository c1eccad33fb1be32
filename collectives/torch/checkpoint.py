"""Checkpoints with a state per rank: torch.distributed.checkpoint (DCP), Accelerate, Lightning."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from collectives.allgather import allgather_bytes
from collectives.call import refuse_in_handler
from collectives.communicator import check_communicator
from collectives.errors import name_kind
from collectives.torch.arguments import is_ready, wrap_group
from wirecodec.interop import BFLOAT16

_NAMES = "names"


class _Stateful(Protocol):
    """Object with a state of arrays."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        ...

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Restore the state."""
        ...


class Checkpointable:
    """Stateful of torch.distributed.checkpoint (DCP) whose key carries the rank, around a state of one rank.

    DCP writes equal keys of several ranks once, and loads only keys that the new object has. So a Compressor
    alone loses its residuals there. This object has one key per rank, for a state of any size.

    The content is that of ``numpy.savez``, read without pickle. DCP itself unpickles its metadata and the
    storage around this content: load only checkpoints that you trust.

    Args:
        obj: a Compressor, CLTk, GTopK or LocalUpdates, with the settings of the saved one; or a Channel,
            whose counts of bytes go on.
        comm: the communicator of its exchanges, or a ProcessGroup; None for the default process group. If
            there is no process group either, this is a single rank.
        key: start of the key in the checkpoint.
        gather: True for frameworks that write the state of rank 0 only, such as Accelerate and Lightning.
            ``state_dict`` is then a collective call, which returns the states of all ranks on each of them.
        saved: (rank, size) of the state to load, if the number of ranks has changed. A state of another rank
            is loaded with ``strict=False``: its residuals are dropped. None for this rank and size.

    Raises:
        TypeError: obj has no state, or comm is no communicator.
        ValueError: saved is no rank of that many ranks.

    Source:
        https://docs.pytorch.org/docs/stable/distributed.checkpoint.html

    Examples:
        >>> import collectives as co, wirecodec as wc
        >>> compressor = wc.Compressor("topk(0.01) | rice | qsgd")
        >>> entry = co.Checkpointable(compressor)
        >>> dcp.save({"model": model, "compressor": entry}, checkpoint_id="checkpoint")  # doctest: +SKIP
        >>> dcp.load({"model": model, "compressor": entry}, checkpoint_id="checkpoint")  # doctest: +SKIP
    """

    def __init__(
        self,
        obj: _Stateful,
        comm: Any = None,
        key: str = "wirecodec",
        *,
        gather: bool = False,
        saved: tuple[int, int] | None = None,
    ) -> None:
        if isinstance(obj, type) or not (hasattr(obj, "state_dict") and hasattr(obj, "load_state_dict")):
            raise TypeError(
                f"obj is {name_kind(obj)}, which has no state;"
                " pass a Compressor, a CLTk, a GTopK or a LocalUpdates"
            )
        if comm is not None:
            comm = wrap_group(comm)
            if is_ready(comm):
                check_communicator(comm)
        if saved is not None and not 0 <= saved[0] < saved[1]:
            raise ValueError(f"saved is {saved}; it must be (rank, size) with 0 <= rank < size")
        self._obj = obj
        self._comm = comm
        self._key = key
        self._gather = gather
        self._saved = saved
        self._given: Any = None

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rank under its key, or those of all ranks if ``gather`` is True.

        A state is a ``torch.UntypedStorage``, of which DCP restores any size. It is a uint8 tensor if
        ``gather`` is True.

        Raises:
            CollectiveError: a rank fails; with reason "nested", a signal's handler or a callback asks for it.
        """
        import torch

        rank, size = self._place()
        content = write_arrays(self._obj.state_dict())
        if self._gather:
            if size > 1:
                refuse_in_handler("a checkpoint with gather=True")
            blobs = [content] if size == 1 else allgather_bytes(self._find_comm(), content)
            tensors = (torch.from_numpy(np.array(blob)) for blob in blobs)
            return {self._name(r, size): tensor for r, tensor in enumerate(tensors)}
        self._given = torch.from_numpy(content).untyped_storage()
        return {self._name(*(self._saved or (rank, size))): self._given}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of this rank, or the one that ``saved`` names.

        Args:
            state: from ``state_dict``, as a checkpoint restores it.

        Raises:
            ValueError: the state is of other ranks or of another number of them, or it is damaged. Nothing
                changes.
        """
        here = self._place()
        rank, size = self._saved or here
        name = self._name(rank, size)
        if name not in state:
            raise ValueError(
                f"the checkpoint has no entry {name!r}; it has {_list(state)}. Each rank loads its own entry,"
                " on as many ranks as at the save: save co.Checkpointable, with gather=True if the framework"
                " saves rank 0 only. On another number of ranks, pass saved=(rank, size) of the entry to load"
            )
        if state[name] is None or state[name] is self._given:  # as DCP leaves it, if it skips missing keys
            raise ValueError(
                f"the checkpoint has no entry {name!r}, so nothing was loaded in place of the present state:"
                " save co.Checkpointable under the same name, or leave it out of the load"
            )
        arrays = read_arrays(name, state[name])
        self._obj.load_state_dict(arrays, strict=rank == here[0])
        self._saved = self._given = None

    def __repr__(self) -> str:
        """Return the object and the key."""
        return f"Checkpointable({self._obj!r}, key={self._key!r})"

    def _place(self) -> tuple[int, int]:
        """Return this rank and the number of ranks."""
        comm = self._find_comm()
        return (0, 1) if comm is None else (comm.rank, comm.size)

    def _find_comm(self) -> Any:
        """Return the communicator, or None if there is neither one nor a default group."""
        import torch.distributed as dist

        if self._comm is None and dist.is_available() and dist.is_initialized():
            self._comm = wrap_group(dist.group.WORLD)
        return self._comm

    def _name(self, rank: int, size: int) -> str:
        return f"{self._key} rank {rank} of {size}"


def write_arrays(arrays: Mapping[str, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return named arrays as bytes of ``numpy.savez``: names may be any text, so arrays are numbered."""
    file = io.BytesIO()
    plain = {name: np.asarray(x) for name, x in arrays.items()}
    names = [[name, x.dtype == BFLOAT16] for name, x in plain.items()]  # which NumPy's files do not have
    numbered: dict[str, Any] = {
        str(number): x.view(np.uint16) if x.dtype == BFLOAT16 else x
        for number, x in enumerate(plain.values())
    }
    numbered[_NAMES] = np.frombuffer(json.dumps(names).encode(), np.uint8)
    np.savez(file, **numbered)
    return np.frombuffer(file.getbuffer(), np.uint8)


def read_arrays(name: str, content: Any) -> dict[str, Any]:
    """Return the arrays of ``write_arrays``.

    Args:
        name: of the entry, for messages.
        content: a storage, a uint8 tensor or array, or bytes.

    Raises ValueError if the content is damaged.
    """
    try:
        with np.load(io.BytesIO(_as_bytes(content)), allow_pickle=False) as file:
            names = json.loads(file[_NAMES].tobytes())
            return {
                str(key): file[str(number)].view(BFLOAT16) if is_bfloat16 else file[str(number)]
                for number, (key, is_bfloat16) in enumerate(names)
            }
    except MemoryError:
        raise
    except Exception as error:  # NumPy and zipfile raise any type of exception for damaged files
        text = f"the entry {name!r} is damaged, or is no state of co.Checkpointable: {error}"
        raise ValueError(text) from None


def _as_bytes(content: Any) -> bytes:
    """Return the bytes of a storage, a tensor, an array or a buffer."""
    import torch

    if isinstance(content, torch.UntypedStorage | torch.TypedStorage):  # torch.load returns the latter
        storage = getattr(content, "_untyped_storage", content)
        content = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    if isinstance(content, torch.Tensor):
        content = content.cpu().numpy()
    return memoryview(content).tobytes()


def _list(state: Mapping[str, Any]) -> str:
    """List the keys of a state."""
    return ", ".join(map(repr, list(state)[:3])) + (", …" if len(state) > 3 else "") if state else "none"
