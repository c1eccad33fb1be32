"""Ok-Topk: each rank selects for itself, owners of ranges sum and choose again (Li and Hoefler, 2022).

    every rank's selection ─► cut into ranges ─► all-to-all ─► sums of a range, of which its owner
    chooses about 1/n as many as it has received ─► all-gather of the chosen sums

A rank sends about one container's bytes in each half, for any number of ranks n. All-gather sends n - 1 of
them, the split algorithms send all ranks' union, and gTop-k sends log n.

The ranges have about equally many selected elements, by the counts of the last step. In the paper, owners
choose by a threshold that is estimated every 64 steps, and then balance what they have chosen. Here an owner
chooses by the count, so there is nothing to balance. In the paper, values are float32, and each is sent with
its index. Here any value codec encodes the pieces and the sums.

Nothing is lost: what an owner drops is kept by the ranks that have sent it, and what a value codec changes is
kept by the rank that has encoded it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

import wirecodec as wc
from collectives.agreement.header import Header, Operation
from collectives.allreduce import allreduce
from collectives.channel import Channel
from collectives.communicator import Communicator
from collectives.exchange.encoding import Encoding, SummingCompressor
from collectives.exchange.specs import ONLY
from collectives.exchange.targets import Targets
from collectives.oktopk.delivery import Delivery
from collectives.oktopk.layout import Layout
from collectives.oktopk.ranges import (
    MAX_REMEMBERED,
    PREFIX,
    Bounds,
    hash_bounds,
    read_bounds,
    remember,
    write_bounds,
)
from collectives.oktopk.summing import Step, sum_by_owners
from collectives.simulation.communicator import simulate
from collectives.sites.sites import Sites
from collectives.transport.weights import Weights
from wirecodec.interop import as_scheme, find_match, find_members, key_text


class OkTopK(SummingCompressor):
    """Ok-Topk all-reduce of one rank over the steps of a training, with its residuals.

    It is a ``wirecodec.Compressor`` whose steps are summed in this way. Pass it to ``allreduce``, ``Sites``,
    ``torch_hook``, ``average_gradients``, ``fsdp_hook`` or ``LocalUpdates`` in place of one. It is for many
    ranks: the bytes per rank do not grow with their number. The sum is sparser than that of ``allreduce``:
    about as many elements arrive as one rank has selected. So training needs more steps or a larger ratio.

    Arrays on a GPU are copied to the host, where the residuals stay. Each call is a step; tensors that are
    exchanged in calls of their own, such as layers in turn, need an OkTopK each.

    Args:
        scheme: a ratio, a scheme as for a Compressor, or {key: either}; or a Compressor, whose settings and
            state are taken over. A ratio sends exact values. If it is the only one, the default of ``scope``
            is "group", which selects from all tensors as from one vector. The selector chooses what this rank
            sends. Its value codec encodes pieces and sums; their index codec is ``rice``.
        settings: as for ``wirecodec.Compressor``, if ``scheme`` is not one. ``bytes_per_step`` limits each
            half of the exchange approximately.

    Raises:
        EncodeError: an argument is out of range, or a scheme has a transform.

    Source:
        Li and Hoefler, 2022, Near-optimal sparse allreduce for distributed deep learning (arXiv 2201.07598).

    Examples:
        >>> import numpy as np, collectives as co
        >>> grad = np.array([1, -4, 2, 0], np.float32)
        >>> co.simulate(2, lambda comm: co.OkTopK(0.5).allreduce(comm, grad))[0]
        array([ 0., -4.,  2.,  0.], dtype=float32)
    """

    operation: ClassVar[Operation] = Operation.OK_TOPK

    def __init__(self, scheme: Any = 0.01, **settings: Any) -> None:
        if isinstance(scheme, wc.Compressor):
            if settings:
                raise TypeError("a Compressor has its own settings; pass no others")
            vars(self).update(scheme.__getstate__())
        elif isinstance(scheme, Mapping):
            super().__init__({key: _read_scheme(one) for key, one in scheme.items()}, **settings)
        else:
            own = {"scope": "group"} if isinstance(scheme, _NUMBERS) else {}
            super().__init__(_read_scheme(scheme), **{**own, **settings})
        if any(one.transform is not None for one in self._settings.scheme_map.values()):
            raise wc.EncodeError("Ok-Topk sends elements of the gradient; a transform has coefficients")
        self._given = dict(self._settings.scheme_map)
        self._settings = self._settings.with_schemes(_select_only)
        self._bounds: Mapping[int, Bounds] = {}
        self._layouts: dict[int, Layout] = {}

    def __repr__(self) -> str:
        """Return the schemes and the step."""
        schemes = {key_text(key): str(one) for key, one in self._given.items()}
        return f"OkTopK({schemes}, step={self.step})"

    def allreduce(self, comm: Communicator | Channel | Sites, grad: Any, **options: Any) -> Any:
        """Average a step; the same as ``allreduce(comm, grad, self, …)``.

        Args:
            comm: a communicator, its Channel, or Sites; all ranks call this together.
            grad: as for ``collectives.allreduce``.
            options: ``op``, ``nonfinite``, ``hold_zeros``, ``out``, ``sparse``, ``weight`` and ``commit``.
                A rank with weight 0 owns no range.

        Returns:
            As ``collectives.allreduce``: the same bits on every rank.

        Raises:
            CollectiveError: a rank failed or ranks differ; the same on all ranks.
            Timeout: a rank does not take part.
        """
        return allreduce(comm, grad, self, **options)

    def compress(self, gradients: Mapping[str, Any], *, rank: int = 0, ranks: int = 1) -> Any:
        """Raise TypeError: a step has no container that receivers sum as it is."""
        raise TypeError("OkTopK sums its own steps: call allreduce, or pass a wirecodec.Compressor")

    def residual(self, name: str = ONLY) -> Any:
        """Return a copy of a tensor's residual, (size,) on the host, or None if it has none."""
        return super().residual(name)

    @property
    def schemes(self) -> Mapping[Any, wc.Scheme]:
        """{key: scheme}, as given; the first match applies."""
        return dict(self._given)

    @property
    def signature(self) -> str:
        """The settings on which ranks must agree, as text."""
        codecs = {key_text(key): str(one) for key, one in self._given.items()}
        return f"ok-topk {codecs}; {super().signature}"

    def state_dict(self) -> dict[str, Any]:
        """Return a Compressor's state, and the bounds of the ranges, as flat {str: ndarray}."""
        return super().state_dict() | write_bounds(self._bounds)

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Restore a state, as ``wirecodec.Compressor.load_state_dict``.

        If the ranks have different bounds, the next step begins with equal ranges.
        """
        bounds = read_bounds(state)
        rest = {key: x for key, x in state.items() if not str(key).startswith(PREFIX)}
        super().load_state_dict(rest, strict=strict)
        self._bounds = bounds

    def get_detail(self, local: Encoding) -> int:
        """Return a hash of the bounds of the last step."""
        return hash_bounds(self._bounds.get(local.operand.signature))

    def sum_step(
        self, channel: Channel, local: Encoding, weights: Weights, proposal: Header
    ) -> dict[str, Any]:
        """Sum all ranks' steps after the agreement."""
        prepared, signature = local.prepared, local.operand.signature
        assert prepared is not None
        step = self._make_step(channel, local, weights, proposal)
        if len({header.detail for header in local.table}) == 1:
            step = replace(step, bounds=self._bounds.get(signature))

        def keep(bounds: Bounds) -> None:
            self._bounds = remember(self._bounds, signature, bounds)

        return sum_by_owners(step, lambda: Delivery(prepared, local.decode_own(), step.layout), keep)

    def rehearse(self, local: Encoding, proposal: Header) -> None:
        """Sum a step of one simulated rank, without an effect on the state."""
        alone = replace(local, targets=Targets())

        def run(comm: Communicator) -> None:
            step = self._make_step(Channel(comm), alone, Weights(), proposal)
            sum_by_owners(step, None)
            for vector in step.layout.vectors.values():  # as the commit does
                nothing = np.empty(0, vector.index_dtype)
                find_members(nothing, nothing)

        simulate(1, run)

    def _make_step(self, channel: Channel, local: Encoding, weights: Weights, proposal: Header) -> Step:
        signature = local.operand.signature
        layout = self._layouts.get(signature) if self.schedule is None else None
        if layout is None:
            layout = self._lay_out(local)
            if len(self._layouts) >= MAX_REMEMBERED:
                self._layouts = {}
            self._layouts[signature] = layout
        seed = local.prepared.seed if local.prepared is not None else 0
        turn = self.step // local.inputs.cycle
        return Step(channel, local, weights, proposal, layout, seed, turn, None)

    def _lay_out(self, local: Encoding) -> Layout:
        """Group the tensors, which is the same in each step without a schedule."""
        rules: Any = self.feedback if isinstance(self.feedback, Mapping) else {"*": self.feedback}
        codecs, exact, kept = {}, {}, {}
        for name, (shape, _) in local.specs.items():
            codecs[name] = self._find_codec(name, shape)
            exact[name] = self.scheme(name, shape, step=self.step).value == _EXACT.value
            kept[name] = find_match(name, shape, rules, "feedback")
        return Layout.of(local.specs, codecs, exact, kept)

    def _find_codec(self, name: str, shape: tuple[int, ...]) -> Any:
        """Return the value codec of a tensor; of one that the schedule sends whole in this step, raw."""
        given = find_match(name, shape, self._given, "scheme")
        now = self.scheme(name, shape, step=self.step)
        if isinstance(now.select, wc.selectors.All) and not isinstance(given.select, wc.selectors.All):
            return _EXACT.value
        return given.value


def _read_scheme(given: Any) -> Any:
    """Return the scheme of a ratio, or what is given. Raises EncodeError if the ratio is out of range."""
    if not isinstance(given, _NUMBERS):
        return given
    return wc.Scheme(wc.selectors.TopK(ratio=float(given)), wc.codecs.Rice(), wc.codecs.Raw())


def _select_only(scheme: wc.Scheme) -> wc.Scheme:
    """Return a scheme with exact values, unless its selector chooses by the bytes of the codecs.

    The pieces encode the values, so the compressor need not.
    """
    if scheme.select.needs_costs:
        return scheme
    return replace(scheme, index=_EXACT.index, value=_EXACT.value)


_NUMBERS = (int, float, np.number)
_EXACT = as_scheme("all | raw-index | raw")
