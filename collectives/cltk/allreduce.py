"""CLT-k: one rank selects for all ranks, so that sparse gradients are summed like dense ones.

ScaleCom (Chen et al., 2020), Algorithm 1. In step t, rank t mod n is the leader. It selects the largest
elements of its residual + gradient and broadcasts their indices. Every rank sends its own values at these
indices. The values are summed in rank order, and the rest stays in each rank's residual:

    x = m + g        sent = x at the leader's indices        m' = (1 - beta) * m + beta * (x - sent)

The bytes that a rank sends do not grow
with the number of ranks. All ranks send the same elements, so selecting and averaging commute, bit for bit.
With beta 1, m' + sent is x, bit for bit. The selection is a contraction only in expectation, and only if the
ranks' residuals are similar (``similarity`` measures this).

If all gradients of a rank are on one GPU, x and m stay there. Only the leader's indices and the selected
values leave it, and only indices and means enter it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import prod
from typing import Any, overload

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure, agree
from collectives.agreement.header import NO_DETAIL, Header, Operand, Operation, Reduction
from collectives.channel import Channel
from collectives.communicator import Communicator
from collectives.device import like, place_of, staged
from collectives.exchange import ONLY, Form, failed_encoding, form_of, limits_of, refusal
from collectives.transport.broadcast import broadcast
from collectives.transport.reduce import Dense, sum_named
from collectives.transport.segments import Octets
from wirecodec.interop import (
    AccumulatedGradient,
    HostGradient,
    accumulate,
    accumulate_on_gpu,
    as_bytes,
    as_integer,
    copy_to_host,
    saved_residual,
    saved_step,
)

__all__ = ["CLTk", "on_host", "ratios_by_flops"]

_INDICES = "all | auto-index | mean"


def ratios_by_flops(flops: Mapping[str, float]) -> dict[str, float]:
    """The paper's rule for how far each layer is compressed (ScaleCom, section 4).

    ``flops`` says how many floating-point operations a gradient element of each tensor costs: the forward
    pass's, times 2 for backward, over the layer's parameters. Up to 128, 1 element in 400 is sent; below 196,
    1 in 50; from there on, 1 in 25. Returns {name: ratio}, as ``CLTk`` takes it.
    """
    return {
        name: 1 / 400 if count <= 128 else 1 / 50 if count < 196 else 1 / 25 for name, count in flops.items()
    }


class CLTk:
    """CLT-k over the steps of a training: residuals, and whose turn it is to lead.

    Args:
        ratio: share of the elements that is sent, of each tensor; or {glob: ratio}, of which the first that
            matches wins. A tensor with ratio 1 is sent whole.
        beta: of the low-pass filter, above 0 and at most 1. The paper takes 0.1 for large batches.
        warmup: steps in which everything is sent.
    """

    def __init__(self, ratio: float | Mapping[str, float], beta: float = 1.0, warmup: int = 0) -> None:
        given = dict(ratio) if isinstance(ratio, Mapping) else {"*": ratio}
        self._selectors = {str(glob): wc.TopK(ratio=share) for glob, share in given.items()}
        self._feedback = wc.ErrorFeedback(beta)
        self._warmup = as_integer(warmup, "warmup")
        if self._warmup < 0:
            raise wc.EncodeError(f"warmup is {warmup!r}; it must be a number of steps")
        self._step = 0
        self._residuals: dict[str, Any] = {}  # on the device of the last gradients
        self._searches: dict[str, Any] = {}  # ends of searches on a GPU; the results do not depend on them

    @property
    def step(self) -> int:
        """Steps taken so far."""
        return self._step

    def residual(self, name: str = ONLY) -> Dense | None:
        """A copy of a tensor's residual (size,), where it lies; or None where nothing is held back."""
        found = self._residuals.get(name)
        return None if found is None else found.copy()

    @overload
    def allreduce(self, comm: Communicator | Channel, grad: Mapping[str, Any]) -> dict[str, Dense]: ...

    @overload
    def allreduce(self, comm: Communicator | Channel, grad: Any) -> Dense: ...

    def allreduce(self, comm: Communicator | Channel, grad: Any) -> Dense | dict[str, Dense]:
        """The mean over the ranks of what each sends, dense; one exchange for all tensors.

        Args:
            comm: a communicator or its Channel; all ranks call this together.
            grad: an array of a carried float type, or {name: array}; the same names, shapes and types on all
                ranks.

        Returns an array of the gradient's shape and type, or {name: array}, where the gradients lie; the same
        bits on every rank. Ranks on the host and on GPUs may mix.

        Raises CollectiveError on all ranks where one of them fails or ranks differ, also in their step, and
        Timeout where a rank does not take part; the residuals are then as they were. Any other exception is
        raised on this rank alone, as ``allgather`` says; after the last payload the step is taken.
        """
        channel = Channel.of(comm)
        with channel.collective() as call:
            leader = self._step % channel.size
            turn = _Turn()
            failure = self._prepare(turn, grad, leads=channel.rank == leader)
            proposal = Header(
                operation=Operation.CLTK,
                reduction=Reduction.MEAN,
                payload_len=len(turn.blob),
                detail=turn.stored,
            )
            table = agree(channel, proposal, turn.operand, failure)
            blob = broadcast(channel, turn.blob, table[leader].payload_len, leader)
            supports = turn.supports(blob, leader)
            selected = {name: total.select(supports[name]) for name, total in turn.totals.items()}
            values = {name: each.values for name, each in selected.items()}
            after = {name: each.remainder() for name, each in selected.items()}, self._step + 1
            try:
                means = sum_named(channel, values, channel.size)
            finally:
                if call.delivered:  # even if this rank raises: the others have taken the step
                    self._residuals, self._step = after
        dense = {
            name: each.scatter(means[name]).reshape(turn.forms[name][0]) for name, each in selected.items()
        }
        found: Dense | dict[str, Dense] = like(grad, dense[ONLY] if turn.bare else dense)
        return found

    def state_dict(self) -> dict[str, Dense]:
        """This rank's state as flat {str: ndarray}, copied, on the host."""
        residuals = {f"residual/{name}": np.array(on_host(x)) for name, x in self._residuals.items()}
        return {"step": np.array(self._step, np.int64), **residuals}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up where ``state_dict`` left off, on the host or on a GPU.

        ValueError names the key that is wrong; nothing changes then. The next exchange fails on all ranks if
        these do not agree on the step.
        """
        odd = [key for key in state if key != "step" and not key.startswith("residual/")]
        if odd or "step" not in state:
            raise ValueError(f"not the state of a CLTk: {odd or ['step']}")
        step = saved_step(state)
        residuals = {key[9:]: saved_residual(key, x) for key, x in state.items() if key != "step"}
        self._step, self._residuals = step, residuals

    @property
    def signature(self) -> str:
        """What must agree between ranks, as text: ratios, beta, warm-up and step."""
        ratios = ", ".join(f"{glob!r}: {one.ratio!r}" for glob, one in self._selectors.items())
        return f"clt-k({{{ratios}}}, beta={self._feedback.beta!r}, warmup={self._warmup}); step {self._step}"

    def selector(self, name: str) -> wc.TopK | None:
        """What the leader chooses by; None where the tensor is sent whole. EncodeError without a match."""
        for glob, selector in self._selectors.items():
            if fnmatchcase(name, glob):
                return None if selector.ratio == 1 else selector
        raise wc.EncodeError(f"no ratio matches; the globs are {', '.join(self._selectors)}", tensor=name)

    def accumulated(self, name: str, grad: Any) -> Dense:
        """Return gradient + residual, flat, on the host.

        Raises EncodeError if an element is not finite, or the residual has another size.
        """
        return self._accumulate_on_host(name, grad).x

    def _accumulate_on_host(self, name: str, grad: Any) -> HostGradient:
        """Add the residual to a gradient on any device. Raises EncodeError, which names the tensor."""
        try:
            residual = on_host(self._residuals.get(name))
            return accumulate(self._feedback, staged(grad), residual, "clt-k")
        except wc.EncodeError as error:
            raise error.of(name) from None

    def _accumulate(self, name: str, grad: Any, *, on_gpu: bool) -> AccumulatedGradient:
        """Add the residual to a gradient, on the GPU if all gradients are there."""
        found = None
        if on_gpu:
            residual = self._residuals.get(name)
            found = accumulate_on_gpu(self._feedback, grad, residual, self._searches, name)
        return self._accumulate_on_host(name, grad) if found is None else found

    def _prepare(self, turn: _Turn, grad: Any, *, leads: bool) -> Failure | None:
        """Describe, correct and, as the leader, choose; an exception becomes a Failure for all to hear of."""
        try:
            turn.bare = not isinstance(grad, Mapping)
            grads = {ONLY: grad} if turn.bare else grad
            place = place_of(grads)
            if place is not None:
                place.settle()  # whatever stream writes them
            forms = {name: form_of(grads[name]) for name in sorted(grads, key=str.encode)}
            described = {name: (shape, dtype.name) for name, (shape, dtype) in forms.items()}
            turn.operand = Operand.of(described, bare=turn.bare, scheme=self.signature)
            turn.forms = forms
            for name in forms:
                turn.totals[name] = self._accumulate(name, grads[name], on_gpu=place is not None)
            if self._step >= self._warmup:
                turn.chosen = [name for name in forms if self.selector(name) is not None]
            if leads and turn.chosen:
                turn.blob = self._choice(turn)
        except Exception as error:
            return failed_encoding(error)
        return None

    def _choice(self, turn: _Turn) -> Octets:
        """The leader's indices, as a container."""
        chosen = {}
        for name in turn.chosen:
            selector, size = self.selector(name), prod(turn.forms[name][0])
            assert selector is not None
            indices = turn.totals[name].top(selector)
            where = np.arange(size, dtype=np.int64) if indices is None else indices
            chosen[name] = wc.SparseTensor(where, np.ones(where.size, np.float32), (size,))
        turn.stored = sum(tensor.nnz for tensor in chosen.values())
        return as_bytes(wc.encode_many(chosen, _INDICES, names=False))


@dataclass
class _Turn:
    """One step on one rank, filled in as it goes.

    Attributes:
        bare: whether one tensor was given without a name.
        forms: {name: (shape, dtype)}, in the order of the names' UTF-8 bytes.
        totals: {name: gradient + residual}.
        operand: what all ranks must agree on.
        chosen: the tensors of which not everything is sent.
        stored: how many elements the leader chose; NO_DETAIL on other ranks.
        blob: the leader's indices of these.
    """

    bare: bool = True
    forms: dict[str, Form] = field(default_factory=dict)
    totals: dict[str, AccumulatedGradient] = field(default_factory=dict)
    operand: Operand = field(default_factory=Operand)
    chosen: list[str] = field(default_factory=list)
    stored: int = NO_DETAIL
    blob: Octets = field(default_factory=lambda: np.empty(0, np.uint8))

    def supports(self, blob: Octets, leader: int) -> dict[str, Dense | None]:
        """Each tensor's indices, None for all; CollectiveError on all ranks where the bytes are refused."""
        found: dict[str, Dense | None] = dict.fromkeys(self.forms)
        if not self.chosen:
            return found
        schema = {name: ((prod(self.forms[name][0]),), np.dtype(np.float32)) for name in self.chosen}
        try:
            tensors = wc.decode_many(blob, limits=limits_of(schema, [blob]), schema=schema)
        except wc.WireError as error:
            raise refusal(leader, error) from error
        return found | {name: None if t.is_full else t.indices for name, t in tensors.items()}


def on_host(residual: Any) -> Any:
    """Return a residual on the host: a finished copy if it is on a GPU; None for None."""
    place = None if residual is None else place_of(residual)
    if place is None:
        return residual
    place.settle()
    return copy_to_host(residual)
