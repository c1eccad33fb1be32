"""gTop-k: an all-reduce of the k largest sums, found along a tree (Shi et al., 2019).

    x = m + g        sent = the top k of x        result = the top k of the merged sums, divided by n

Traffic grows with log₂ n. The result is not the sum of what the ranks selected, as ``allreduce`` computes it:
each merge drops the smaller sums. So gTop-k is an object with residuals of its own, not an algorithm of
``allreduce``, whose algorithms have the same result.

In the paper, a rank keeps its values at indices that the result does not have. A value that was dropped in a
merge is lost if its index is in the result. Here the rank that drops a sum adds it to its own residual. Each
rank keeps the part of a value that is too large to be summed. Rank 0 keeps the rounding errors of the means.
So results and residuals together have everything, up to the rounding of sums and the range of a residual.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure, agree
from collectives.agreement.compilation import run_announced
from collectives.agreement.header import Header, Operand, Operation, Reduction
from collectives.call import counted
from collectives.channel import Channel
from collectives.communicator import Communicator
from collectives.device import stage_on_host
from collectives.exchange.specs import ONLY, TensorSpec, describe, failure_of_encoding, get_spec
from collectives.exchange.transaction import Pending, settling
from collectives.gtopk.tree import Merge, Sparse, find_limit, merge_along_tree
from wirecodec.interop import (
    OpenStep,
    State,
    Stateful,
    StateHolder,
    accumulate,
    copy_of,
    read_state,
    write_state,
)

Array = Any


class GTopK(Stateful):
    """gTop-k all-reduce of one rank over the steps of a training, with its residuals.

    It is here to be compared with other methods; hooks and ``LocalUpdates`` do not take it. For few ranks,
    ``allreduce`` with ``topk`` and ``rice`` sends fewer bytes. For many ranks, ``CLTk`` does. Arrays on a GPU
    are copied to the host.

    Args:
        ratio: k/d of each tensor, above 0 and at most 1.

    Raises:
        EncodeError: the ratio is out of range.

    Source:
        Shi et al., 2019, A distributed synchronous SGD algorithm with global top-k sparsification.

    Examples:
        >>> import numpy as np, collectives as co
        >>> grad = np.array([1, -4, 2, 0], np.float32)
        >>> co.simulate(2, lambda comm: co.GTopK(0.25).allreduce(comm, grad))[0]
        array([ 0., -4.,  0.,  0.], dtype=float32)
    """

    def __init__(self, ratio: float) -> None:
        self._selector = wc.selectors.TopK(ratio=ratio)
        self._holder = StateHolder()

    def residual(self, name: str = ONLY) -> Array | None:
        """Return a copy of a tensor's residual, (size,), or None if it has no residual."""
        return copy_of(self._holder.state.residuals, name)

    @counted(lambda self, comm, *_, **__: Channel.of(comm))
    def allreduce(self, comm: Communicator | Channel, grad: Any, *, commit: bool = True) -> Any:
        """Average the elements whose merged sums are the largest.

        Args:
            comm: a communicator or its Channel; all ranks call this together.
            grad: a finite array of float32, float16, bfloat16 or float64, or {name: array}. Names, shapes and
                types must be the same on all ranks.
            commit: False for a ``Pending``, as for ``co.allreduce``.

        Returns:
            A dense array of the gradient's shape and type, or {name: array} in the order given, on the host;
            the same bits on every rank.

        Raises:
            CollectiveError: a rank failed or ranks differ; the same on all ranks.
            Timeout: a rank does not take part. After any error, the residuals are unchanged.
        """
        channel, bare = Channel.of(comm), not isinstance(grad, Mapping)
        grads = {ONLY: grad} if bare else grad
        specs: dict[str, TensorSpec] = {}
        current = before = State()
        totals: dict[str, Array] = {}
        operand = Operand()
        proposal = Header(operation=Operation.GTOPK, reduction=Reduction.MEAN)

        def prepare() -> Failure | None:
            nonlocal operand, before, current
            try:
                for name in sorted(grads, key=str.encode):
                    specs[name] = get_spec(grads[name])
                scheme = f"gtop-k({self._selector.ratio!r}); step {self.step}"
                operand = describe(specs, bare=bare, scheme=scheme)
                current = self._holder.begin()
                before = current.fit(channel.rank, specs)
                for name in specs:
                    given, residual = stage_on_host(grads[name]), before.residuals.get(name)
                    x = accumulate(wc.ErrorFeedback(), given, residual, "gtop-k", name).x
                    x = x if x.dtype == np.float64 else x.astype(np.float32, copy=False)
                    totals[name] = x.copy() if residual is None else x  # it may be the gradient
            except Exception as error:
                failure: Failure | None = failure_of_encoding(error)
                return failure
            return None

        results: dict[str, Array] = {}
        merges: dict[str, Merge] = {}
        steps: list[OpenStep] = []

        def settle() -> None:
            """Take the step, for which the results are needed, if the others have them, too."""
            if not call.is_delivered:
                return
            if not steps:
                residuals = {}
                for name, x in totals.items():
                    results[name], residuals[name] = _finish(channel, merges[name], x, specs[name][1])
                steps.append(OpenStep(self._holder, current, before.next(channel.rank, residuals)))
            if commit and steps[0].is_open:
                steps[0].commit()

        with channel.collective() as call, settling(settle):
            failure = run_announced(channel, prepare, lambda: (proposal, operand))
            agree(channel, proposal, operand, failure)
            for name, x in totals.items():
                merges[name] = self._select(x, specs[name][1], channel.size)
            for number, merging in enumerate(merges.values(), 1):
                merge_along_tree(channel, merging, is_last=number == len(merges))
            call.is_delivered = True
        if not commit:
            steps[0].hold()
        dense = {name: results[name].reshape(specs[name][0]) for name in grads}
        means = dense[ONLY] if bare else dense
        return means if commit else Pending(means, steps[0])

    def _select(self, x: Array, dtype: np.dtype[Any], n: int) -> Merge:
        """Select what this rank contributes to the sums over n ranks, whose means have a type."""
        indices = self._selector.select(x).indices
        chosen = np.arange(x.size) if indices is None else indices.astype(np.int64)
        limit = find_limit(dtype, x.dtype, n)
        return Merge(Sparse(chosen, np.clip(x[chosen], -limit, limit)), x.size)

    def state_dict(self) -> dict[str, Array]:
        """Return this rank's state as a flat {str: ndarray}, with its rank and names."""
        return write_state(self._holder.state)

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Restore a state of ``state_dict``.

        The rank and the names are compared at the first step, as by ``wc.Compressor.load_state_dict``.

        Args:
            state: arrays or tensors.
            strict: False to drop residuals of another rank, or of tensors that the first step does not have.

        Raises:
            ValueError: a key is wrong; the message names it, and nothing changes.
        """
        self._holder.load(read_state(state, "GTopK", strict=strict)[0])


def _finish(channel: Channel, merging: Merge, x: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return a tensor's mean as a dense vector of a type, and the residual; x is gradient plus residual."""
    own, merged, rests = merging.own, merging.read(), merging.dropped
    mean, residual = np.zeros(x.size, dtype), x.copy()
    with np.errstate(all="ignore"):
        residual[own.indices] -= own.values
        mean[merged.indices] = merged.values / x.dtype.type(channel.size)
        if channel.rank == 0:
            delivered = mean[merged.indices].astype(x.dtype) * x.dtype.type(channel.size)
            rests = [*rests, Sparse(merged.indices, merged.values - delivered)]
        for rest in rests:
            residual[rest.indices] += rest.values
    largest = np.finfo(x.dtype).max
    return mean, np.clip(residual, -largest, largest, out=residual)  # as sums of gradient and residual
