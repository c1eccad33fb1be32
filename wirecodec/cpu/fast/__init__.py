"""All that exists for speed alone: if it is switched off, only time changes.

Two ideas make a step fast. Many tensors go through each stage in one kernel call (``encode``, ``decode``,
``add``, ``sums``), as columns (``cpu.selected``, ``cpu.columns``). And a selector may choose from sums while
their terms are added (``sums``, ``group``, ``terms``, ``budget``). ``headers`` describes many arrays at once,
and ``stream`` writes past the caches.

A fast form takes the tensors that it can, and leaves the others to the plain way. No other room imports this
one: it fills the table of ``cpu.forms``, where stages look their form up. Bytes, states and errors are the
same:

    >>> import numpy as np, wirecodec as wc
    >>> from wirecodec.cpu import fast
    >>> model = {name: np.arange(100, dtype=np.float32) for name in "ab"}
    >>> with fast.off():
    ...     plain = wc.encode_many(model, "topk(0.1) | rice | raw")
    >>> bool((plain == wc.encode_many(model, "topk(0.1) | rice | raw")).all())
    True
"""

from __future__ import annotations

from wirecodec.cpu.fast.add import SumTargets
from wirecodec.cpu.fast.budget import select_budgets
from wirecodec.cpu.fast.decode import decode_batches
from wirecodec.cpu.fast.encode import encode_many, select_many
from wirecodec.cpu.fast.group import list_groups, select_group
from wirecodec.cpu.fast.headers import describe
from wirecodec.cpu.fast.rounded import add_rounded, round_sums, select_rounded
from wirecodec.cpu.fast.stream import add_streamed, clear_all, scatter_streamed, take
from wirecodec.cpu.fast.sums import complete, select_sum, select_tensors
from wirecodec.cpu.fast.terms import TermColumns
from wirecodec.cpu.forms import Forms, fill, off

__all__ = ["off"]

fill(
    Forms(
        describe=describe,
        describe_terms=TermColumns.of,
        list_groups=list_groups,
        select_group=select_group,
        select_tensors=select_tensors,
        select_budgets=select_budgets,
        complete=complete,
        select_many=select_many,
        encode_many=encode_many,
        decode_batches=decode_batches,
        sums=SumTargets.of,
        select_rounded=select_rounded,
        select_sum=select_sum,
        add_rounded=add_rounded,
        round_sums=round_sums,
        add_streamed=add_streamed,
        take_streamed=take,
        scatter_streamed=scatter_streamed,
        clear_all=clear_all,
    )
)
