"""torchft (0.2): a process group whose all-reduces travel as containers, under its DDP, LocalSGD and DiLoCo.

    pg = CompressedProcessGroup(ProcessGroupGloo(), "topk(0.01) | rice | qsgd(bits=4)")
    manager = Manager(pg=pg, ...)
    attach(manager, pg)

torchft decides at the end of a step whether it counts: residuals advance if ``Manager.should_commit`` is
True, and stay otherwise. A replica that joins begins without residuals: those of a donor belong to the donor,
which still sends them. Its step is the manager's, so schedules and random choices agree.

Containers pass through the host, so the group must be one of gloo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import wirecodec as wc
from collectives.allreduce import allreduce
from collectives.call import refuse_nested
from collectives.channel import Channel
from collectives.errors import name_kind
from collectives.gloo.communicator import TorchComm
from collectives.integrations.updates import explain_missing
from collectives.waiting.worker import Worker
from wirecodec.interop import StepInParts, describe_overlap

try:
    import torch
    from torch.distributed import ReduceOp
    from torch.distributed.distributed_c10d import AllreduceOptions
    from torchft.process_group import ProcessGroup, ProcessGroupWrapper
except ImportError as error:
    raise explain_missing("torchft", error) from error

_DENSE = "all | raw-index | raw"
_NOT_ATTACHED = (
    "nobody tells this process group whether a step counts, so its residuals could not advance; call"
    " collectives.integrations.torchft.attach(manager, pg) after the Manager was made"
)


class CompressedProcessGroup(ProcessGroupWrapper):  # type: ignore[misc]
    """Process group of torchft whose sums of float tensors are exchanged as containers.

    All other operations are those of the wrapped group. ``attach`` must be called once the Manager is there.

    Args:
        pg: a group of torchft over gloo, as ``ProcessGroupGloo``.
        scheme: of all tensors, or {name: scheme}. The tensors of a step are named by their order, as
            "0", "1"; with fragments as "fragment 1/0".
        compressor: other arguments of ``wc.Compressor``.

    Attributes:
        bytes_sent: to other replicas, in all groups so far.

    Raises:
        TypeError: pg is not a group of torchft.

    Examples:
        >>> from torchft.process_group import ProcessGroupGloo  # doctest: +SKIP
        >>> pg = CompressedProcessGroup(ProcessGroupGloo(), "topk(0.01) | rice | qsgd")  # doctest: +SKIP
    """

    def __init__(self, pg: ProcessGroup, scheme: Any, **compressor: Any) -> None:
        if not isinstance(pg, ProcessGroupWrapper):
            raise TypeError(
                f"pg is {name_kind(pg)}; pass a torchft process group that runs in this process, such as"
                " torchft.process_group.ProcessGroupGloo()"
            )
        super().__init__(pg=pg)
        self._compressor = wc.Compressor(scheme, **compressor)
        self._comm = TorchComm(partial(_find_group, pg))
        self._worker = Worker("CompressedProcessGroup")
        self._manager: Any = None
        self._fragments = 1
        self._bases: dict[str, Any] | None = None  # parameters that all replicas have, of LocalSGD
        self._step = _Step()
        self._sent_before = 0

    def configure(self, *args: Any, **kwargs: Any) -> None:
        """Use a new group of replicas; what the old one has not committed is dropped."""
        self._sent_before, self._worker = self.bytes_sent, Worker("CompressedProcessGroup")
        self._step = _Step()
        if self._bases is not None:
            self._bases = {}
        super().configure(*args, **kwargs)

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """Return the name of the wrapped group's backend."""
        name: str = self.parent.getBackendName()
        return name

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        """Begin to add float tensors over the replicas, in place; other tensors and operations go to ``pg``.

        Args:
            tensors: of one call; a tensor of zeros sends nothing, and its residual stays.
            opts: torch's options, or the operation.

        Returns:
            The Work, whose ``wait`` raises the error of the exchange.

        Raises:
            RuntimeError: ``attach`` was not called.
            ValueError: tensors share memory.
        """
        refuse_nested()
        op = opts.reduceOp if isinstance(opts, AllreduceOptions) else opts
        is_mean = bool(op == ReduceOp.AVG)
        if not (is_mean or op == ReduceOp.SUM) or not all(x.is_floating_point() for x in tensors):
            return self.parent.allreduce(tensors, opts)
        if self._manager is None:
            raise RuntimeError(_NOT_ATTACHED)
        numbered = {str(number): tensor for number, tensor in enumerate(tensors)}
        if (shared := describe_overlap(numbered, lambda name: f"tensor {name}")) is not None:
            raise ValueError(f"{shared}: each needs memory of its own for its sum")
        step, future = self._step, torch.futures.Future[Any]()
        names = [self._name(step.count + number) for number in range(len(tensors))]
        step.count += len(tensors)
        given = dict(zip(names, tensors, strict=True))

        def run() -> None:
            try:
                self._exchange(step, given, "mean" if is_mean else "sum")
            except BaseException as error:
                step.has_failed = True
                future.set_exception(error)
            else:
                future.set_result(tensors)

        self._worker.submit(run)
        return _Work(future)

    @property
    def bytes_sent(self) -> int:
        """Bytes that this replica has sent to others."""
        try:
            return self._sent_before + Channel.of(self._comm).bytes_sent
        except ValueError:  # there is no group
            return self._sent_before

    def residual(self, name: str) -> Any:
        """Return a copy of a tensor's residual, (size,), or None if it has none."""
        return self._compressor.residual(name)

    def state_dict(self) -> dict[str, Any]:
        """Return this replica's residuals and selectors' state, for a checkpoint of this replica."""
        return self._compressor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of ``state_dict``; replicas have other numbers in each group."""
        self._compressor.load_state_dict({key: x for key, x in state.items() if key != "rank"})

    def settle(self, *, commit: bool) -> None:
        """End a step: let the residuals advance if it counts. ``attach`` calls it.

        Args:
            commit: whether the step counts.
        """
        refuse_nested()
        self._wait()
        step, self._step = self._step, _Step()
        if not commit and self._bases:
            self._bases = {}  # replicas that have committed learn of it, and all send dense parameters next
        if step.parts is None:
            return
        if not commit or step.has_failed:
            step.parts.rollback()
            return
        step.parts.commit()
        if self._bases is not None:
            self._bases.update(step.bases)

    def _wait(self) -> None:
        """Wait for the exchanges that were begun."""
        self._worker.drain()

    def _name(self, number: int) -> str:
        """Return the name of a tensor by its number in the step."""
        if self._fragments == 1:
            return str(number)
        return f"fragment {self._manager.current_step() % self._fragments}/{number}"

    def _exchange(self, step: _Step, tensors: dict[str, torch.Tensor], op: Literal["mean", "sum"]) -> None:
        """Add tensors in place, as a part of a step."""
        if step is not self._step or step.has_failed:
            raise RuntimeError("an earlier exchange of this step has failed, or the group was replaced")
        if step.parts is None:
            self._compressor.set_step(self._manager.current_step())
            step.parts = StepInParts(self._compressor)
        part = step.parts.next_part()
        flat = {name: x.detach().contiguous() for name, x in tensors.items()}
        if self._bases is None:
            sums = allreduce(self._comm, flat, part, op=op, hold_zeros=True)
        else:
            sums = self._add_parameters(step, flat, part, op, self._bases)
        for name, tensor in tensors.items():
            tensor.detach().copy_(_as_tensor(sums[name], tensor).reshape(tensor.shape))

    def _add_parameters(
        self, step: _Step, tensors: dict[str, torch.Tensor], part: Any, op: Any, bases: dict[str, Any]
    ) -> dict[str, Any]:
        """Add parameters of LocalSGD: dense in a new group, then as movements from what all replicas have.

        A replica that does not take part has zeros in place of parameters.
        """
        count = self._manager.num_participants() if op == "sum" else 1
        takes_part = self._manager.is_participating()
        if not all(name in bases for name in tensors):
            sums: dict[str, Any] = allreduce(self._comm, tensors, _DENSE, op=op)
        else:
            moved = {name: x - bases[name] if takes_part else x for name, x in tensors.items()}
            means = allreduce(self._comm, moved, part, op=op, hold_zeros=True)
            sums = {name: bases[name] * count + _as_tensor(x, tensors[name]) for name, x in means.items()}
        step.bases |= {name: _as_tensor(x, tensors[name]).clone() / count for name, x in sums.items()}
        return sums


def _as_tensor(result: Any, like: torch.Tensor) -> torch.Tensor:
    """Return a result as a tensor on the device of another one, whatever torch's default device is."""
    return torch.as_tensor(result, device=like.device)


def attach(
    manager: Any,
    pg: CompressedProcessGroup,
    *,
    fragments: int = 1,
    values: Literal["gradients", "parameters"] = "gradients",
) -> None:
    """Let residuals advance with the steps that a Manager commits.

    Args:
        manager: the torchft Manager that was made with ``pg``.
        pg: the compressed group.
        fragments: number of fragments of DiLoCo, whose tensors keep residuals of their own; 1 for all else.
        values: what is added: "gradients" for DDP, and for DiLoCo, whose movements count as gradients;
            "parameters" for LocalSGD. Movements from the last common parameters are sent then, and the first
            exchange of each new group is dense.

    Raises:
        TypeError: pg is not a CompressedProcessGroup.
        ValueError: fragments or values is out of range, or pg has a Manager already.
    """
    if not isinstance(pg, CompressedProcessGroup):
        raise TypeError(f"pg is {type(pg).__name__}; pass the CompressedProcessGroup of this Manager")
    if pg._manager is not None:
        raise ValueError("this process group was attached to a Manager before")
    if fragments < 1 or values not in ("gradients", "parameters"):
        raise ValueError(
            f"fragments is {fragments} and values is {values!r}; use 1 or more, and 'gradients' or"
            " 'parameters'"
        )
    pg._manager, pg._fragments = manager, fragments
    pg._bases = {} if values == "parameters" else None
    decide: Callable[..., bool] = manager.should_commit

    def should_commit(*args: Any, **kwargs: Any) -> bool:
        counts = False
        try:
            counts = decide(*args, **kwargs)
        finally:
            pg.settle(commit=counts)
        return counts

    manager.should_commit = should_commit


class _Step:
    """Exchanges of one step of torchft."""

    def __init__(self) -> None:
        self.parts: StepInParts[wc.Compressor] | None = None
        self.count = 0  # tensors so far
        self.has_failed = False
        self.bases: dict[str, Any] = {}


class _Work(torch.distributed._Work):  # type: ignore[misc]
    """Work of an exchange that a thread makes."""

    def __init__(self, future: Any) -> None:
        super().__init__()
        self._future = future

    def wait(self, timeout: Any = None) -> bool:
        """Wait for the end of the exchange; raise its error."""
        self._future.wait()
        return True

    def get_future(self) -> Any:
        """Return the future of the tensors."""
        return self._future


def _find_group(pg: Any) -> Any:
    """Return the present group of gloo in wrappers of torchft, or None before there is one."""
    while isinstance(pg, ProcessGroupWrapper):
        pg = pg._pg
    if pg is not None:
        try:
            pg._get_backend(torch.device("cpu"))
        except RuntimeError as error:
            raise TypeError(
                "CompressedProcessGroup needs a process group of gloo in this process, because containers"
                f" pass through the host; this one has none: {error}"
            ) from error
    return pg
