"""Work of an Ok-Topk exchange beyond the encoding of a step, as calls that a cost model times."""

from __future__ import annotations

from collections.abc import Callable

import wirecodec as wc
from collectives.agreement.header import HEADER_SIZE
from collectives.cost_model import Cost, Workload
from collectives.oktopk.delivery import join_supports
from collectives.oktopk.layout import Layout, Sparse
from collectives.oktopk.owners import choose, cut_all, decode_elements, encode_elements
from collectives.oktopk.summing import make_schemes
from collectives.sums.pieces import decode_blocks
from collectives.transport.weights import Weights
from wirecodec.interop import find_members

FEW = 8
"""Elements of a piece whose time and bytes are those of any piece, beyond the time and bytes per element."""


def make_calls(sent: Sparse, scheme: wc.Scheme) -> tuple[Callable[[], object], Callable[[], object], int]:
    """Return the work on all elements, the work on a piece of few elements, and the bytes of such a piece.

    Args:
        sent: {name: tensor} that a rank selects, with one element or more.
        scheme: of the rank.
    """
    given = {name: (x.shape, x.dtype) for name, x in sent.items()}
    layout = Layout.of(
        given, dict.fromkeys(given, scheme.value), dict.fromkeys(given, True), dict.fromkeys(given)
    )
    flat, specs, schemes = layout.join(sent), layout.specs, make_schemes(layout, None)
    whole = {name: (0, x.size) for name, x in flat.items()}
    name = next(name for name, x in flat.items() if x.nnz)
    is_exact = scheme.value == wc.codecs.Raw()
    end = int(flat[name].indices[min(FEW, flat[name].nnz) - 1]) + 1
    few = cut_all(flat, [{name: (0, end)}])[0]

    def work() -> None:
        block, known = encode_elements(cut_all(layout.join(sent), [whole])[0], schemes, 0)
        if not is_exact:
            list(known.values())
        chosen = choose({0: block}, specs, whole, Weights(), 0, 0, schemes, 0)
        found = join_supports(decode_blocks([chosen.block], specs, [whole]), [whole], layout)
        for each, x in flat.items():
            find_members(found[each], x.indices)

    def piece() -> None:
        block = encode_elements(few, schemes, 0)[0]
        for _ in range(2):  # of all ranks, and of all owners
            decode_elements(block, specs, {name: (0, end)})

    return work, piece, encode_elements(few, schemes, 0)[0].nbytes


def compute_cost(work: Workload, container: int, piece: int) -> Cost:
    """Compute messages, bytes and elements for the busiest rank.

    Args:
        work: sizes of the exchange.
        container: bytes of a rank's encoding.
        piece: bytes of a piece of few elements.
    """
    others = work.ranks - 1
    nbytes = 2 * work.fraction * container + others * (2 * piece + 2 * HEADER_SIZE + 8)
    return Cost(4 * others, nbytes, 0, 4 * work.largest)
