"""Arguments that a torch program passes, and what to write in place of wrong ones."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import wirecodec as wc
from collectives.cltk.allreduce import CLTk
from collectives.errors import name_kind
from collectives.gloo.communicator import TorchComm
from collectives.sites.sites import Sites


def check_compressor(compressor: Any) -> wc.Compressor | CLTk:
    """Return the argument; raise TypeError if it keeps no residuals, as a scheme does not."""
    if isinstance(compressor, wc.Compressor | CLTk):
        return compressor
    if isinstance(compressor, str | wc.Scheme | Mapping):
        raise TypeError(
            f"compressor is the scheme {str(compressor)!r}, which keeps no residuals;"
            " pass wc.Compressor(scheme)"
        )
    raise TypeError(
        f"compressor is {name_kind(compressor)}; pass a wirecodec.Compressor or a collectives.CLTk"
    )


def wrap_group(comm: Any) -> Any:
    """Return a communicator for a ProcessGroup, and any other argument as it is."""
    dist = sys.modules.get("torch.distributed")
    return TorchComm(comm) if dist is not None and isinstance(comm, dist.ProcessGroup) else comm


def require_ranks(comm: Any) -> Any:
    """Return the argument; raise TypeError if its peers come and go, as those of a StoreComm."""
    if getattr(comm, "is_end", None) is True and not comm.channels():
        raise TypeError(
            f"gradients of every step need ranks that stay, and comm is a {type(comm).__name__};"
            " pass it to collectives.LocalUpdates, or average with collectives.allreduce"
        )
    return comm


def is_ready(comm: Any) -> bool:
    """Return whether a communicator or Sites can exchange; a TorchComm may have no group yet."""
    parts = (comm._local, comm._across) if isinstance(comm, Sites) else (comm,)
    return all(not isinstance(part, TorchComm) or part.is_ready for part in parts)


def name_parameters(named_parameters: Iterable[Any]) -> dict[str, Any]:
    """Return {name: parameter}.

    Raises TypeError if there are no names, ValueError if a name or a parameter occurs twice, or there is no
    parameter.
    """
    import torch

    if isinstance(named_parameters, Mapping):
        named_parameters = named_parameters.items()
    named: dict[str, Any] = {}
    for pair in named_parameters:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)) or not isinstance(
            pair[1], torch.Tensor
        ):
            raise TypeError(
                f"named_parameters contains a {type(pair).__name__}, not a pair (name, parameter);"
                " pass model.named_parameters()"
            )
        if pair[0] in named:
            raise ValueError(f"two parameters have the name {pair[0]!r}; each needs a name of its own")
        named[pair[0]] = pair[1]
    if not named:
        raise ValueError(
            "named_parameters is empty; pass model.named_parameters(), which can be iterated only once"
        )
    require_distinct(named)
    return named


def require_distinct(named: Mapping[str, Any]) -> None:
    """Raise ValueError if a parameter has two names, as a weight that two modules share."""
    first: dict[int, str] = {}
    for name, parameter in named.items():
        other = first.setdefault(id(parameter), name)
        if other != name:
            raise ValueError(f"{other} and {name} are the same parameter; pass it once")


def refuse_complex(named: Mapping[str, Any]) -> None:
    """Raise ValueError if a parameter that needs a gradient is complex."""
    for name, parameter in named.items():
        if parameter.requires_grad and parameter.is_complex():
            raise ValueError(
                f"parameter {name!r} is {parameter.dtype}; gradients of complex parameters cannot be"
                " compressed: store its real and imaginary parts as a real parameter, and use"
                " torch.view_as_complex"
            )


class _NoBucket(dict[str, inspect.Parameter]):
    """Parameters of a function that is not a hook itself."""

    def __missing__(self, name: str) -> inspect.Parameter:
        if name != "bucket":
            raise KeyError(name)
        raise TypeError(
            "torch_hook creates a hook and is not one; write ddp.register_comm_hook("
            "None, co.torch_hook(compressor, co.TorchComm(), model.named_parameters()))"
        )


class _Signature(inspect.Signature):
    """Signature in which DistributedDataParallel does not find the parameter ``bucket``."""

    @property
    def parameters(self) -> MappingProxyType[str, inspect.Parameter]:
        """The parameters, by name."""
        return MappingProxyType(_NoBucket(super().parameters))


def refuse_as_hook(function: Callable[..., Any]) -> None:
    """Let ``register_comm_hook`` raise a TypeError with advice if it gets a function that creates hooks.

    It looks up the parameter ``bucket`` of a hook's signature.
    """
    signature = inspect.signature(function)
    vars(function)["__signature__"] = _Signature(
        list(signature.parameters.values()), return_annotation=signature.return_annotation
    )
