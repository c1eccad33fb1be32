"""CLT-k: one rank selects for all ranks, so that sparse gradients are summed like dense ones.

ScaleCom (Chen et al., 2020), Algorithm 1. In step t, rank t mod n is the leader. It selects the largest
elements of its residual + gradient and broadcasts their indices. Every rank sends its own values at these
indices. The values are summed in rank order, and the rest stays in each rank's residual:

    x = m + g        sent = x at the leader's indices        m' = (1 - beta) * m + beta * (x - sent)

The bytes that a rank sends do not grow with the number of ranks, except for small selections. Values of less
than 32 KiB over all ranks are gathered, which takes fewer messages and (n-1) times the bytes. All ranks send
the same elements, so selecting and averaging commute, bit for bit. With beta 1, m' + sent is x, bit for bit.

The selection is a contraction only in expectation, and only if the ranks' residuals are similar, which
``similarity`` measures. By default, the leader selects the exact top k. The paper's leader sorts chunks,
which a GPU of its time did faster; the scheme ``chunk-topk(0.01, 4096) | rice | raw`` does the same.

If all gradients of a rank are on one GPU, x and m stay there. Only the leader's indices and the selected
values leave it, and only indices and means enter it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

import wirecodec as wc
from collectives.agreement.agree import Failure, agree
from collectives.agreement.compilation import rehearse, run_announced
from collectives.agreement.header import Header, Operation, Reduction, Status
from collectives.agreement.nonfinite import check_results, check_setting, is_propagated
from collectives.call import counted
from collectives.channel import Channel, find_ends
from collectives.cltk.older import read_arguments
from collectives.cltk.rehearsal import rehearse_large
from collectives.cltk.selection import LeaderSelectors
from collectives.cltk.state import CLTkState
from collectives.cltk.step import LocalStep
from collectives.communicator import Communicator
from collectives.errors import CollectiveError, is_shared
from collectives.exchange.encoding import Inputs, MakeInputs
from collectives.exchange.specs import TensorSpec, failure_of_encoding
from collectives.exchange.targets import fill_with_nan
from collectives.exchange.transaction import Pending, Transaction, settling
from collectives.simulation.communicator import simulate
from collectives.sites.exchange import reduce_over_sites
from collectives.sites.sites import Sites
from collectives.transport.broadcast import broadcast
from collectives.transport.reduce import Dense, sum_named
from collectives.transport.weights import check_weight, weigh
from wirecodec.interop import OpenStep


class CLTk(CLTkState):
    """CLT-k all-reduce of one rank over the steps of a training, with its residuals.

    Each call is a step, after which the next rank leads; with ``LocalUpdates``, after an exchange of each
    fragment. Tensors that a program exchanges in calls of their own, such as layers in turn, need a CLTk
    each: with a common one, a tensor may always have the same leader.

    Args:
        scheme: one for all tensors, or {key: scheme}; a key is a glob or a Rule, and the first match applies.
            A scheme is a ratio, the fraction of a tensor's elements that is sent, or as for a Compressor. Its
            selector is that of the leader, and needs a ratio; values are exact, so its last stage is ``raw``.
            A tensor with ratio 1 is sent whole. The paper's leader has the selector ``chunk-topk``.
        feedback: an ErrorFeedback whose decay is 1. The paper uses ``beta`` 0.1 for large batches.
        schedule: function (step, ratio) -> ratio, as for a Compressor; at 1, a tensor is sent whole. The
            paper's warm-up is ``WarmUp(steps, hold=True)``.
        scope: "tensor" to select from each tensor by itself; "group" to select from all tensors that one key
            matches as from one vector. Residuals are per tensor. A hook that overlaps selects from each
            bucket; pass ``overlap=False`` to it.
        ratio, beta, warmup, selector: older arguments, with a DeprecationWarning; they go with 0.3.0.

    Raises:
        EncodeError: an argument is out of range.

    Source:
        Chen et al., 2020, ScaleCom, Algorithm 1.

    Examples:
        >>> import numpy as np, collectives as co
        >>> grad = np.array([1, -4, 2, 0], np.float32)
        >>> co.simulate(2, lambda comm: co.CLTk(0.25).allreduce(comm, grad))[0]
        array([ 0., -4.,  0.,  0.], dtype=float32)
    """

    def __init__(
        self,
        scheme: Any = None,
        beta: float | None = None,
        warmup: int | None = None,
        *,
        feedback: wc.ErrorFeedback | None = wc.ErrorFeedback(),  # noqa: B008 - frozen, so shared safely
        schedule: Any = None,
        scope: Literal["tensor", "group"] = "tensor",
        ratio: float | Mapping[Any, float] | None = None,
        selector: Any = None,
    ) -> None:
        older = {"ratio": ratio, "beta": beta, "warmup": warmup, "selector": selector}
        given = read_arguments(scheme, feedback, older)
        if not isinstance(given.feedback, wc.ErrorFeedback) or given.feedback.decay != 1:
            raise wc.EncodeError(
                f"feedback is {given.feedback!r}; CLT-k keeps residuals itself: pass wc.ErrorFeedback(beta),"
                " without decay, and give the optimizer its momentum"
            )
        super().__init__(LeaderSelectors(given.scheme, schedule, scope, given.warmup), given.feedback)

    @overload
    def allreduce(
        self,
        comm: Communicator | Channel | Sites,
        grad: Mapping[str, Any],
        *,
        nonfinite: Literal["raise", "propagate"] = ...,
        hold_zeros: bool = ...,
        out: Mapping[str, Any] | None = ...,
        weight: float = ...,
        commit: Literal[True] = ...,
    ) -> dict[str, Dense]: ...

    @overload
    def allreduce(
        self,
        comm: Communicator | Channel | Sites,
        grad: Any,
        *,
        nonfinite: Literal["raise", "propagate"] = ...,
        hold_zeros: bool = ...,
        out: Any = ...,
        weight: float = ...,
        commit: Literal[True] = ...,
    ) -> Dense: ...

    @overload
    def allreduce(
        self,
        comm: Communicator | Channel | Sites,
        grad: Any,
        *,
        nonfinite: Literal["raise", "propagate"] = ...,
        hold_zeros: bool = ...,
        out: Any = ...,
        weight: float = ...,
        commit: Literal[False],
    ) -> Pending[Any]: ...

    @counted(lambda self, comm, *_, **__: find_ends(comm))
    def allreduce(
        self,
        comm: Communicator | Channel | Sites,
        grad: Any,
        *,
        nonfinite: Literal["raise", "propagate"] = "raise",
        hold_zeros: bool = False,
        out: Any = None,
        weight: float = 1.0,
        commit: bool = True,
    ) -> Any:
        """Average the elements that the leader selects, in one exchange for all tensors.

        Args:
            comm: a communicator, its Channel, or Sites; all ranks call this together.
            grad: an array of float32, float16, bfloat16 or float64, or {name: array}. Names, shapes and types
                must be the same on all ranks.
            nonfinite: the effect of NaN or Inf in a rank's gradient, the same on all ranks: "raise" an error,
                or "propagate", which makes all results NaN on every rank. Then no residual changes, and the
                step does not count.
            hold_zeros: True to hold each tensor whose gradient is zero everywhere on this rank. If the rank
                is the leader, nothing of the tensor is sent, and every rank keeps its accumulated gradient.
                On other ranks, elements that the leader selects are sent, because the leader's gradient shows
                that the tensor is used. Of a tensor that is sent whole, this rank sends zeros. So no residual
                is sent if the gradients of all ranks are zero.
            out: memory for the means, as for ``co.allreduce``; it may be the gradients themselves.
            weight: of this rank, as for ``co.allreduce``. If it is 0, the rank's residuals do not change. If
                the leader has weight 0, nothing of sparse tensors is sent in this step.
            commit: False for a ``Pending``, as for ``co.allreduce``.

        Returns:
            A dense array of the gradient's shape and type, or {name: array} in the order given, on the
            gradients' device; the same bits on every rank. Some ranks may use the host and others
            GPUs. If ``out`` is given, its arrays are returned.

        Raises:
            CollectiveError: a rank failed or ranks differ, for example in their step; the same on all ranks.
                The residuals and ``out`` are unchanged.
            Timeout: a rank does not take part. The residuals are unchanged; the contents of ``out`` are
                undefined.

        Other exceptions have the effects that ``allgather`` describes; the contents of ``out`` are undefined.
        """
        inputs, transaction = Inputs(grad, out), Transaction(holds=not commit)
        result = self.reduce_made(
            comm,
            lambda: inputs,
            nonfinite=nonfinite,
            hold_zeros=hold_zeros,
            weight=weight,
            transaction=transaction,
        )
        return result if commit else Pending(result, transaction.held)

    def reduce_made(
        self,
        comm: Communicator | Channel | Sites,
        make: MakeInputs,
        *,
        nonfinite: str = "raise",
        hold_zeros: bool = False,
        weight: float = 1.0,
        transaction: Transaction | None = None,
    ) -> Any:
        """Take a step with inputs that are made inside the guard of the exchange.

        Arguments and results are those of ``allreduce``; if ``make`` raises, all ranks raise CollectiveError.
        ``transaction`` is that of the step; None to commit it.
        """
        inputs, transaction = Inputs({}), transaction or Transaction()

        def take() -> Inputs:
            nonlocal inputs
            inputs = make()
            return inputs

        def exchange(
            comm: Communicator | Channel, make: MakeInputs, weight: float, transaction: Transaction
        ) -> Any:
            channel, local = Channel.of(comm), LocalStep()
            return self._exchange(channel, local, make, nonfinite, weight, transaction, holds=hold_zeros)

        try:
            if not isinstance(comm, Sites):
                return exchange(comm, take, weight, transaction)
            return reduce_over_sites(comm, take, exchange, lambda: self.signature, transaction, weight=weight)
        except CollectiveError as error:
            if not is_propagated(error, nonfinite):
                raise
        spoiled = inputs.localize()
        return fill_with_nan(spoiled.tensors, spoiled.out)

    def _exchange(
        self,
        channel: Channel,
        local: LocalStep,
        make: MakeInputs,
        nonfinite: str,
        weight: float,
        transaction: Transaction,
        *,
        holds: bool,
    ) -> Any:
        """Take a step, as ``allreduce``, or hold it; raise CollectiveError in place of NaN.

        Args:
            holds: whether tensors are held whose gradient is zero everywhere.
        """
        succeeds = False

        def settle() -> None:
            delivered = channel.call.is_delivered
            may_count = delivered or channel.closed is not None
            transaction.settle(succeeds=succeeds, is_delivered=delivered, may_count=may_count)

        with channel.collective() as call, settling(settle):
            proposal = Header(operation=Operation.CLTK, reduction=Reduction.MEAN)

            def prepare() -> Failure | None:
                nonlocal proposal
                try:
                    proposal = proposal._replace(weight=check_weight(weight))
                except (TypeError, ValueError) as error:
                    return Failure(Status.ARGUMENT, error)
                local.listens = proposal.weight == 0
                failure = self._prepare(local, make, nonfinite, channel, holds=holds)
                if failure is None and not local.on_gpu:
                    key = Operation.CLTK, self._selectors.sends_raw(self.step), local.dtypes
                    rehearse(channel, key, lambda: self._rehearse(local.inputs.tensors, local.specs))
                return failure

            failure = run_announced(channel, prepare, lambda: (proposal, local.operand))
            proposal = proposal._replace(payload_len=len(local.blob), detail=local.stored)
            table = agree(channel, proposal, local.operand, failure)
            weights, leader = (
                weigh([header.weight for header in table], mean=True),
                self._find_leader(local, channel),
            )
            blob = broadcast(channel, local.blob, table[leader].payload_len, leader)
            supports = local.decode_supports(blob, leader)
            selected = {name: total.select(supports[name]) for name, total in local.totals.items()}
            values = {name: chosen.values for name, chosen in selected.items()}
            left = {name: chosen.remainder() for name, chosen in selected.items() if name not in local.kept}
            after = local.before.next(channel.rank, {} if local.listens else left)
            transaction.begin(OpenStep(self._holder, local.current, after))
            whole = {name: x for name, x in local.targets.flat.items() if supports[name] is None}
            try:
                means = sum_named(channel, values, weights, whole)
                if nonfinite == "propagate" or local.inputs.limits:
                    dtypes = {name: dtype for name, (_, dtype) in local.specs.items()}
                    check_results(means, dtypes, local.inputs.limits)
                results = local.deliver(selected, means)
                if local.inputs.accept is not None:
                    local.inputs.accept(results)
                succeeds = True
            except CollectiveError as error:
                if is_shared(error):
                    call.is_delivered = False
                raise
        return results

    def _prepare(
        self, local: LocalStep, make: MakeInputs, nonfinite: str, channel: Channel, *, holds: bool
    ) -> Failure | None:
        """Describe and accumulate, and as the leader select; return an exception as a Failure."""
        try:
            check_setting(nonfinite)
            local.inputs = make().localize()
            leads = channel.rank == self._find_leader(local, channel)
            local.current = self._holder.begin()
            local.before = local.current.fit(channel.rank, local.grads)
            if failure := local.describe(self.signature):
                return failure
            local.choose(self._selectors, leads=leads, holds=holds)
            local.accumulate(
                self._holder.memory,
                self._feedback,
                on_gpu=local.on_gpu and self._selectors.has_gpu_kernels,
                selects=leads and self._selectors.scope == "tensor",
            )
            if leads:
                local.encode_indices(self._selectors)
        except Exception as error:
            return failure_of_encoding(error)
        return None

    def _find_leader(self, local: LocalStep, channel: Channel) -> int:
        """Return the rank that selects in this step."""
        return self.step // local.inputs.cycle % channel.size

    def _rehearse(self, grad: Any, specs: Mapping[str, TensorSpec]) -> None:
        """Take steps alone with new objects, which call the kernels that follow the headers."""
        alone = CLTk(1.0, feedback=self._feedback)
        alone._selectors = self._selectors.rehearsal(warm=self._selectors.sends_raw(self.step))
        simulate(1, lambda comm: alone.allreduce(comm, grad))
        rehearse_large(specs, lambda: CLTk(0.001, feedback=self._feedback))
