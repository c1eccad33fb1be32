"""Compilation in a call: a rank announces it before it is silent for long.

A kernel takes seconds to compile, and a scheme has dozens. A rank therefore works with ready kernels only
(``wirecodec.interop.cached_kernels_only``). If one must be compiled, it first exchanges a header with the
status COMPILING, and then begins its work again. If all kernels are in the disk cache, nothing is sent.

Kernels that a call needs after its headers are reached by a rehearsal before them. The first time on a
channel, a rank also does the later parts of the call with its own tensors, for example decodes its container.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from collectives.agreement.agree import agree, announce_compilation
from collectives.agreement.header import Header, Operand
from collectives.channel import Channel
from wirecodec.interop import CompilationNeeded, cached_kernels_only

T = TypeVar("T")


def run_announced(
    channel: Channel, work: Callable[[], T], describe: Callable[[], tuple[Header, Operand]]
) -> T:
    """Run work, and announce it to all ranks if it has to compile a kernel. The caller agrees afterwards.

    Args:
        channel: open. Simulated ranks have no deadlines, so they announce nothing.
        work: has no effects that a second run does not replace.
        describe: returns the arguments of the agreement. It is called if a kernel must be compiled.

    Raises:
        CollectiveError: a rank failed or ranks differ; the same on all ranks.
        Timeout: a rank does not take part.
    """
    if not channel.has_deadlines or channel.call.compilation_pending:
        return work()
    try:
        with cached_kernels_only():
            return work()
    except CompilationNeeded:
        announce_compilation(channel, *describe())
    return work()


def rehearse(channel: Channel, key: object, work: Callable[[], object]) -> None:
    """Reach the kernels of a later part of a call on this rank; once per channel and key.

    Args:
        channel: open.
        key: names the part.
        work: calls the kernels. Its errors are ignored: the part itself reports them.
    """
    if channel.has_deadlines and channel.size > 1 and key not in channel.rehearsed:
        with suppress(Exception):
            work()
        channel.rehearsed.add(key)


def rehearse_together(
    channel: Channel, key: object, work: Callable[[], object], proposal: Header, operand: Operand
) -> None:
    """Reach the kernels of a part of a call that was chosen after its headers; once per channel and key.

    The ranks exchange headers, because a rank whose kernels are ready does not know whether others compile.

    Args:
        channel: open; all ranks call this together.
        key: names the part, the same on all ranks.
        work: as for ``rehearse``.
        proposal, operand: of the call.

    Raises:
        CollectiveError: a rank failed or ranks differ; the same on all ranks.
        Timeout: a rank does not take part.
    """
    if channel.has_deadlines and channel.size > 1 and key not in channel.rehearsed:
        run_announced(channel, lambda: rehearse(channel, key, work), lambda: (proposal, operand))
        agree(channel, proposal, operand)
