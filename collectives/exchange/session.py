"""Common steps of allgather and allreduce: encode, agree, gather, and commit or roll back.

Encoding happens between the call and the agreement, so that a rank that cannot encode still takes part and
all ranks learn of it. Tensors are encoded on the host or on their GPU. A Compressor is committed if every
rank has all containers and can decode them. All ranks decide this alike, because they have the same bytes or
have exchanged their results. An error on one rank after that point does not roll back its Compressor, because
the other ranks already hold its contribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import wirecodec as wc
from collectives.agreement.agree import Failure, Payload, agree
from collectives.agreement.compilation import rehearse, run_announced
from collectives.agreement.header import NO_DETAIL, Header
from collectives.channel import Channel
from collectives.communicator import Communicator
from collectives.errors import CollectiveError, is_shared
from collectives.exchange.encoding import Encoding, encode_tensors
from collectives.exchange.inputs import MakeInputs
from collectives.exchange.specs import (
    SchemeArgument,
    failure_of_decoding,
    failure_of_encoding,
)
from collectives.exchange.targets import Targets
from wirecodec.interop import OpenStep, count_stored


@contextmanager
def open_exchange(
    comm: Communicator | Channel,
    make: MakeInputs,
    scheme: SchemeArgument,
    seed: int,
    proposal: Header,
    failure: Failure | None = None,
    *,
    sparse: bool = False,
    hold_zeros: bool = False,
    finite: bool = False,
    commit: bool = True,
    doubt: Callable[[OpenStep], None] | None = None,
    decodes_own: bool = False,
    get_detail: Callable[[Encoding], int] | None = None,
    rehearsal: Callable[[Channel, Encoding], object] | None = None,
    will_gather: Callable[[Channel, Encoding, list[Header]], bool] = lambda *_: True,
) -> Iterator[tuple[Channel, Encoding]]:
    """Encode a rank's tensors and agree with the other ranks; yield the channel and this rank's Encoding.

    The block runs as one ``Channel.collective``. A Compressor is committed if ``call.is_delivered``, and
    rolled back otherwise. It is also rolled back if the block raises CollectiveError, on all ranks or none.

    Args:
        comm, scheme, seed: as for allgather.
        make: makes this rank's inputs; if it raises, all ranks raise CollectiveError. After a compilation it
            is called again.
        proposal: operation, reduction, algorithm and weight.
        failure: the reason why this rank cannot contribute, if it is known already.
        sparse: whether the results are SparseTensors, on which all ranks agree.
        hold_zeros: as for ``Compressor.prepare``; without a Compressor it has no effect.
        finite: whether NaN or Inf is an error even if the scheme carries or drops it.
        commit: False to leave a Compressor's step open if the block succeeds.
        doubt: takes a Compressor's step, open, if this rank raises and other ranks may commit theirs: the
            channel was closed before the last payload came, or this rank raises after it. A step that cannot
            be committed without results that did not come is rolled back. None to commit the step after the
            last payload if ``commit``, and to roll it back otherwise.
        decodes_own: whether the block needs this rank's tensors decoded, which is then tried here.
        get_detail: returns the number in this rank's header, for a block that sends no containers. None to
            announce the container and the number of its elements.
        rehearsal: calls the kernels that the block needs, with this rank's Encoding.
        will_gather: returns for the headers whether the block gathers the containers; the same on all ranks.

    Raises:
        CollectiveError: a rank failed or ranks differ; the same on all ranks.
        Timeout: a rank does not take part.
    """
    channel = Channel.of(comm)
    local, is_complete = Encoding(sparse=sparse), False

    def contribute() -> Failure | None:
        failure = encode_tensors(
            local,
            make,
            scheme,
            seed,
            channel,
            proposal.weight,
            hold_zeros=hold_zeros,
            finite=finite,
            sums_itself=get_detail is not None,
        )
        if failure is None and decodes_own:
            try:
                local.decode_own()
            except Exception as error:
                failure = failure_of_decoding(error, channel.rank)
        if failure is None and rehearsal is not None and local.gpu is None:
            settings = scheme.signature if isinstance(scheme, wc.Compressor) else local.operand.scheme_text
            key = proposal.operation, proposal.algorithm, settings, sparse, local.dtypes
            # A rehearsal must not write into the caller's memory.
            rehearse(channel, key, lambda: rehearsal(channel, replace(local, targets=Targets())))
        return failure

    is_settled = False

    def settle() -> None:
        nonlocal is_settled
        step = local.prepared
        if is_settled or step is None:
            return
        if is_complete and not commit:
            step.hold()
        else:
            _settle(step, channel, None if is_complete else doubt, commit=commit)
        is_settled = True

    with channel.collective() as call, concluding(settle):
        try:
            if failure is None:
                failure = run_announced(channel, contribute, lambda: (proposal, local.operand))
            detail, payload, count = NO_DETAIL, None, get_detail or (lambda local: count_stored(local.blob))
            if failure is None:
                try:
                    detail = count(local)
                except Exception as error:
                    failure = failure_of_encoding(error)
            proposal = proposal._replace(detail=detail)
            if get_detail is None:
                proposal = proposal._replace(payload_len=len(local.blob))
                payload = Payload(local.blob, partial(will_gather, channel, local))
            local.table = agree(channel, proposal, local.operand, failure, payload)
            yield channel, local
            is_complete = call.is_delivered
        except CollectiveError as error:
            if is_shared(error):
                call.is_delivered = False
            raise


@contextmanager
def concluding(conclude: Callable[[], None]) -> Iterator[None]:
    """Conclude a block, whatever it raises: other ranks have decided, so an interrupt must not prevent that.

    Args:
        conclude: is called at the end of the block, and again if anything is raised in the block or by the
            first call. After a call that was completed, it has no effect.
    """
    try:
        try:
            yield
        finally:
            conclude()
    except BaseException:
        with suppress(RuntimeError):  # the step was settled before the interrupt, or by another call
            conclude()
        raise


def _settle(
    step: wc.Prepared, channel: Channel, doubt: Callable[[OpenStep], None] | None, *, commit: bool
) -> None:
    """Commit a step, roll it back, or leave it in doubt, as ``open_exchange`` says."""
    is_delivered = channel.call.is_delivered
    may_count = is_delivered or (channel.closed is not None and not step.needs_results)
    if doubt is not None and may_count:
        doubt(step)
    elif is_delivered and commit:
        step.commit()
    else:
        step.rollback()
