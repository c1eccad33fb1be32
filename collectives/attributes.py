"""Attributes of communicators: where a communicator keeps its Channel.

An MPI communicator keeps it as an MPI attribute, so that all handles of the communicator share it. Any other
communicator keeps it as a Python attribute. The Channel lives as long as its communicator.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

_NAME = "_collectives_channel"
_LOCK = threading.Lock()


def is_mpi(comm: Any) -> bool:
    """Return whether an object has MPI's attribute functions, as mpi4py's communicators have."""
    return hasattr(comm, "Get_attr") and hasattr(comm, "Set_attr") and hasattr(comm, "Create_keyval")


def check_not_null(comm: Any) -> None:
    """Raise ValueError if an MPI communicator is MPI.COMM_NULL, as it is after ``comm.Free()``."""
    if not comm:
        raise ValueError(
            "the communicator is MPI.COMM_NULL: it was freed, or this process is not one of its ranks;"
            " use a communicator that contains this process"
        )


def check_mpi(comm: Any) -> None:
    """Raise ValueError if an MPI communicator is null, TypeError if it is an intercommunicator."""
    check_not_null(comm)
    if comm.Is_inter():
        raise TypeError(
            f"{type(comm).__name__} is an intercommunicator, on which MPI gathers from the remote group only;"
            " use the intracommunicator that comm.Merge() returns"
        )


def attach(comm: Any, value: object) -> None:
    """Keep an object with a communicator."""
    if is_mpi(comm):
        comm.Set_attr(_get_keyval(), value)
    else:
        setattr(comm, _NAME, value)


def get_attached(comm: Any) -> object:
    """Return the object that ``attach`` kept with a communicator, or None."""
    return comm.Get_attr(_get_keyval()) if is_mpi(comm) else getattr(comm, _NAME, None)


def _get_keyval() -> int:
    """Return the one MPI attribute key of this process. The lock prevents a second key by another thread."""
    with _LOCK:
        return _create_keyval()


@cache
def _create_keyval() -> int:
    from mpi4py import MPI

    return MPI.Comm.Create_keyval()  # without a copy function: a duplicate gets its own Channel
