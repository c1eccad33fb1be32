"""Exchange between sites for modules of FSDP2. torch is imported on first use.

FSDP2 shards parameters within a site, and adds gradients there. Its hook gets this rank's shard of a module's
gradients, flat, and exchanges it with the same rank of the other sites.

    backward ─► reduce-scatter within the site ─► hook: exchange between sites ─► sharded gradients

All modules of one backward pass are one step of the compressor. At its end, all ranks learn whether all
exchanges have succeeded, and take the step or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import wirecodec as wc
from collectives.agreement.agree import Failure, agree
from collectives.agreement.header import Header, Operand, Operation, Status
from collectives.call import Call, exclusive
from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk
from collectives.communicator import Communicator
from collectives.errors import CollectiveError, is_shared
from collectives.gloo.communicator import TorchComm
from collectives.sites.sites import Sites
from collectives.torch.arguments import check_compressor, require_ranks, wrap_group
from collectives.torch.callbacks import after_backward, raise_error, report_error
from collectives.torch.parts import PartDriver, PartSettings
from collectives.torch.scaling import check_scaler
from collectives.torch.side_stream import torch_stream
from wirecodec.interop import local_shard


def fsdp_hook(
    module: Any,
    compressor: wc.Compressor | CLTk,
    comm: Communicator | Channel | Sites,
    *,
    algorithm: str = "auto",
    nonfinite: Literal["raise", "propagate"] = "propagate",
    scaler: Any = None,
) -> None:
    """Average the gradients of modules of FSDP2 between sites, compressed.

    Shard the module within a site by ``fully_shard`` with a mesh of the site's ranks, then call this on all
    ranks. FSDP averages gradients within the site. Each rank then exchanges its shard with the ranks that
    have the same shard in other sites. A module's path names its shard: its residual, and its rule in a
    scheme per name; the root is ``"root"``.

    The exchange runs in ``backward``. With ``set_requires_gradient_sync(False)``, nothing is exchanged.

    An error is raised by ``backward`` on all ranks of all sites, after FSDP has completed its step. All
    gradients are then NaN, because they were not averaged: call ``optimizer.zero_grad()``. The same gradients
    must exist in all sites: a module without a gradient in one site only ends in an error.

    Args:
        module: a module to which ``fully_shard`` was applied, with all FSDP modules in it.
        compressor: this rank's compressor, with the same settings on all ranks; one per model.
        comm: of the ranks that have the same shard, or Sites, or a gloo ProcessGroup. With a DeviceMesh of
            sites and ranks, ``co.Sites.of(mesh)`` or ``co.TorchComm(mesh.get_group(0))``.
        algorithm: as for allreduce; CLT-k ignores it.
        nonfinite: as for allreduce. With "propagate", all gradients are NaN if one is NaN or Inf on any rank.
        scaler: as for ``torch_hook``.

    Raises:
        ImportError: torch is missing.
        TypeError: an argument is of another kind; the message names the right one.
        ValueError: the compressor has ``clip`` or ``bytes_per_step``, which need all gradients at once.

    Source:
        https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html

    Examples:
        >>> import collectives as co, wirecodec as wc
        >>> mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("site", "rank"))  # doctest: +SKIP
        >>> fully_shard(model, mesh=mesh["rank"])  # doctest: +SKIP
        >>> compressor = wc.Compressor("topk(0.01) | rice | qsgd")
        >>> co.fsdp_hook(model, compressor, co.Sites.of(mesh))  # doctest: +SKIP
    """
    check_compressor(compressor)
    check_scaler(scaler)
    for limit in ("clip", "bytes_per_step"):
        if isinstance(compressor, wc.Compressor) and getattr(compressor, limit) is not None:
            raise ValueError(
                f"the compressor has {limit}, which needs all gradients before the first exchange;"
                f" fsdp_hook exchanges module by module: pass {limit}=None"
            )
    modules = _find_modules(module)
    across: Any = comm.across if isinstance(comm, Sites) else require_ranks(wrap_group(comm))
    local = comm.local if isinstance(comm, Sites) else TorchComm(_make_site_group(module))
    names = {id(one): path or "root" for path, one in modules.items()}
    exchange_of_parts = PartSettings(compressor, set(names.values()), algorithm, nonfinite, scaler)
    settings = _Settings(module, exchange_of_parts, across, local)
    current: _Backward | None = None

    def exchange(name: str, flat: Any) -> None:
        nonlocal current
        interrupt: BaseException | None = None
        for is_last in (False, True):  # an interrupt breaks off one try at most
            try:
                if current is None or not current.goes_on():
                    current = _Backward(settings)
                current.exchange(name, flat, interrupt)
                break
            except BaseException as error:
                if is_last:
                    raise
                interrupt = error

    for one in modules.values():
        one.set_all_reduce_hook(partial(exchange, names[id(one)]))


def _find_modules(module: Any) -> dict[str, Any]:
    """Return the FSDP modules by path. Raises TypeError for a module without FSDP, or of FSDP1."""
    import torch

    if not hasattr(module, "set_all_reduce_hook"):
        kind = type(module).__name__
        if kind == "FullyShardedDataParallel":
            advice = "FSDP1 has other hooks: use fully_shard, which is FSDP2"
        elif isinstance(module, torch.nn.Module):
            advice = "apply torch.distributed.fsdp.fully_shard to it first, or use torch_hook for DDP"
        else:
            advice = "pass a torch module to which fully_shard was applied"
        raise TypeError(f"module is {kind}, which is no FSDP2 module; {advice}")
    found = {}
    module = getattr(module, "_orig_mod", module)  # of torch.compile
    for path, one in module.named_modules():
        if hasattr(one, "set_all_reduce_hook"):
            found[path.replace("_orig_mod.", "").replace("._orig_mod", "")] = one
    return found


def _make_site_group(module: Any) -> Any:
    """Make a gloo group of the ranks among which the module is sharded."""
    import torch.distributed as dist

    for parameter in module.parameters():
        if hasattr(parameter, "device_mesh"):
            mesh = parameter.device_mesh
            if mesh.ndim != 1:
                raise TypeError(
                    f"the module is sharded over a mesh of {mesh.ndim} dimensions, so FSDP itself averages"
                    " between sites: pass fully_shard the ranks of one site only, such as mesh['rank']"
                )
            ranks = dist.get_process_group_ranks(mesh.get_group())
            return dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
    raise TypeError("module has no sharded parameter; apply torch.distributed.fsdp.fully_shard to it first")


@dataclass(frozen=True, eq=False)
class _Settings:
    """Settings of a hook, as for ``fsdp_hook``.

    Attributes:
        across: communicator of the ranks that have the same shard.
        local: communicator of the ranks of the site.
    """

    module: Any
    exchange: PartSettings
    across: Any
    local: Any


class _Backward:
    """Exchanges of one backward pass: one step of the compressor."""

    def __init__(self, settings: _Settings) -> None:
        self._settings = settings
        self._graph = _find_graph()
        self._driver = PartDriver(settings.exchange)
        self._counts: dict[str, int] = {}
        self._error: BaseException | None = None  # of this rank, or of an exchange between sites
        self._shared: CollectiveError | None = None  # of the site
        self._is_exchanged = True  # so far
        self._is_alone = False  # whether the other sites do not know that it is not
        self._is_open, self._is_queued = True, False
        self._before: dict[Channel, tuple[Call, int]] = {}

    def goes_on(self) -> bool:
        """Return whether the present backward pass is this one; an interrupted pass has left its step."""
        return self._is_open and self._graph == _find_graph()

    def exchange(self, name: str, flat: Any, interrupt: BaseException | None = None) -> None:
        """Average a module's shard between sites, in place; or make it NaN after an error.

        Errors and interrupts of this rank alone are raised at the end of the backward pass, in which the
        other ranks of the site wait for this one.

        Args:
            name: of the module.
            flat: the shard.
            interrupt: came in an earlier try of this call.
        """
        self._queue()
        try:
            if interrupt is not None:
                self._note(interrupt)
            elif self._is_exchanged:
                self._average(name, flat)
        except BaseException as error:
            self._note(error)
        if self._is_alone:
            self._tell()
        if not self._is_exchanged:
            flat.fill_(math.nan)

    def _queue(self) -> None:
        """Let the step end with the backward pass."""
        if not self._is_queued:
            import torch

            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
            self._is_queued = True

    def _average(self, name: str, flat: Any) -> None:
        self._is_exchanged, self._is_alone = False, True
        count = self._counts[name] = self._counts.get(name, 0) + 1
        given = {name if count == 1 else f"{name}#{count}": flat}
        stream = torch_stream(flat.device)  # in backward, FSDP's stream for reductions
        across = Channel.of(self._settings.across)
        self._driver.average(across, lambda: given, stream=stream)
        self._is_exchanged, self._is_alone = self._driver.is_exchanged, False

    def _note(self, error: BaseException) -> None:
        """Keep the first error of this rank; the step does not count."""
        self._is_alone = (self._is_alone or self._is_exchanged) and not is_shared(error)
        self._error, self._is_exchanged = self._error or error, False

    def _finish(self) -> None:
        """End the step; raise its error in a callback that runs after those of all FSDP modules."""
        if not self._is_open:
            return  # it was queued twice
        try:
            self._settle()
        except BaseException as error:
            report_error(error, Channel.of(self._settings.across).rank)
            after_backward(partial(raise_error, error))

    def _settle(self) -> None:
        """Take the step if it counts for all ranks, or make all gradients NaN; raise what went wrong."""
        self._is_open = False
        try:
            self._decide()
        except BaseException as error:
            self._error = self._error or error
            self._decide()
        if self._error is not None:
            raise self._error from self._shared
        if self._shared is not None and not (
            self._shared.reason == "value" and self._settings.exchange.nonfinite == "propagate"
        ):
            raise self._shared

    def _decide(self) -> None:
        """Learn from the other ranks whether the step counts, and take it or not.

        The other sites are asked first, unless they know. A site with one gradient more waits for its
        exchange, and gets this. After an interrupt, a second call goes on where the first one was.
        """
        if self._is_exchanged:
            self._is_exchanged = self._ask(self._settings.across)
        elif self._is_alone:
            self._tell()
        if self._ask(self._settings.local):
            self._driver.commit()
        else:
            self._driver.rollback()
            self._spoil()

    def _tell(self) -> None:
        """Tell the other sites at once that the step does not count: their next exchange gets this."""
        self._ask(self._settings.across)
        self._is_alone = False

    def _ask(self, comm: Any) -> bool:
        """Return whether the step is good for all ranks of a communicator; a second call does not ask again.

        An interrupt comes before the question or after the answer.
        """
        channel = Channel.of(comm)
        call, sequence = self._before.setdefault(channel, (channel.call, channel.sequence))
        for _ in range(2):
            try:
                if channel.sequence == sequence:
                    self._agree(channel, self._find_failure())
            except CollectiveError as error:
                if comm is self._settings.local:
                    self._shared = self._shared or error
                else:
                    self._error = self._error or error
            except BaseException as error:
                self._error = self._error or error
        return channel.call is not call and channel.call.table is not None

    def _find_failure(self) -> Failure | None:
        """Return the reason why the step does not count on this rank, or None."""
        if self._is_exchanged:
            return None
        own = self._error
        if own is None:
            return Failure(Status.VALUE, wc.EncodeError("NaN or Inf in a gradient"))
        text = wc.EncodeError(f"{type(own).__name__} in the exchange")
        return Failure(Status.ENCODE, own if isinstance(own, Exception) else text)

    @exclusive
    def _agree(self, channel: Channel, failure: Failure | None) -> None:
        """Tell the other ranks how the step has ended; raise CollectiveError unless it was good for all."""
        with channel.collective() as call:
            try:
                agree(channel, Header(operation=Operation.SITE), Operand(), failure, finish=True)
            finally:
                call.is_delivered = call.table is not None

    def _spoil(self) -> None:
        """Make all gradients NaN, so that no optimizer uses them unnoticed."""
        for parameter in self._settings.module.parameters():
            if parameter.grad is not None:
                local_shard(parameter.grad.detach()).fill_(math.nan)


def _find_graph() -> int:
    """Return a number of the backward pass that is running, or -1 at its end."""
    import torch

    find: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)
    return find()
