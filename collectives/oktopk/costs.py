"""Work of an Ok-Topk exchange beyond the encoding of a step, as calls that a cost model times."""

from __future__ import annotations

from collections.abc import Callable

import wirecodec as wc
from collectives.agreement.header import HEADER_SIZE
from collectives.cost_model import Cost, Workload
from collectives.oktopk.delivery import Sparse, contains, join_supports
from collectives.oktopk.owners import choose, cut_all, decode_elements, encode_elements
from collectives.sums.pieces import decode_blocks
from collectives.transport.weights import Weights
from wirecodec.interop import as_scheme, make_sparse

FEW = 8
"""Elements of a piece whose time and bytes are those of any piece, beyond the time and bytes per element."""


def make_calls(sent: Sparse, scheme: wc.Scheme) -> tuple[Callable[[], object], Callable[[], object], int]:
    """Return the work on all elements, the work on a piece of few elements, and the bytes of such a piece.

    Args:
        sent: {name: tensor} that a rank selects, with one element or more.
        scheme: of the rank.
    """
    flat = {
        name: make_sparse(None if x.is_full else x.indices, x.values, (x.size,)) for name, x in sent.items()
    }
    specs = {name: ((x.size,), x.dtype) for name, x in flat.items()}
    whole = {name: (0, x.size) for name, x in flat.items()}
    schemes = dict.fromkeys(flat, wc.Scheme(_ALL.select, _ALL.index, scheme.value))
    name = next(name for name, x in flat.items() if x.nnz)
    end = int(flat[name].indices[min(FEW, flat[name].nnz) - 1]) + 1
    few = cut_all(flat, [{name: (0, end)}])[0]

    def work() -> None:
        block = encode_elements(cut_all(flat, [whole])[0], schemes, 0)
        if scheme.value != _ALL.value:
            decode_elements(block, specs, whole)
        chosen = choose({0: block}, specs, whole, Weights(), 0, 0, schemes, 0)
        found = join_supports(decode_blocks([chosen.block], specs, [whole]), [whole], list(specs))
        for each, x in flat.items():
            contains(found[each], x.indices)

    def piece() -> None:
        block = encode_elements(few, schemes, 0)
        for _ in range(2 + (scheme.value != _ALL.value)):  # of all ranks, of all owners, and its own
            decode_elements(block, specs, {name: (0, end)})

    return work, piece, encode_elements(few, schemes, 0).nbytes


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


_ALL = as_scheme("all | rice | raw")
