"""Common steps of allgather and allreduce: encode, agree, gather, and commit or roll back.

Encoding happens between the call and the agreement, so that a rank that cannot encode still takes part and
all ranks learn of it. Tensors are encoded on the host or on their GPU. A Compressor is committed if every
rank has all containers and can decode them. All ranks decide this alike, because they have the same bytes or
have exchanged their results. An error on one rank after that point does not roll back its Compressor, because
the other ranks already hold its contribution.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import wirecodec as wc
from collectives.agreement.agree import Failure, Payload, agree
from collectives.agreement.compilation import rehearse, run_announced
from collectives.agreement.header import NO_DETAIL, Header
from collectives.channel import Channel
from collectives.communicator import Communicator
from collectives.errors import CollectiveError, is_shared
from collectives.exchange.encoding import Encoding, MakeInputs, encode_tensors
from collectives.exchange.specs import (
    SchemeArgument,
    failure_of_decoding,
    failure_of_encoding,
)
from collectives.exchange.targets import Targets
from collectives.exchange.transaction import Transaction, settling
from wirecodec.interop import count_stored


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
    transaction: Transaction | None = None,
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
        make: makes this rank's inputs; if it raises, all ranks raise CollectiveError. After a compilation of
            the encoder's kernels it is called again.
        proposal: operation, reduction, algorithm and weight.
        failure: the reason why this rank cannot contribute, if it is known already.
        sparse: whether the results are SparseTensors, on which all ranks agree.
        hold_zeros: as for ``Compressor.prepare``; without a Compressor it has no effect.
        finite: whether NaN or Inf is an error even if the scheme carries or drops it.
        transaction: of a Compressor's step. Other ranks may commit a step if the channel was closed before
            the last payload came, or this rank raises after it; not one that needs results that did not come.
            None to commit the step after the last payload.
        decodes_own: whether the block needs this rank's tensors decoded, which is then tried here.
        get_detail: returns the number in this rank's header, for a block that sends no containers. None to
            announce the container and the number of its elements.
        rehearsal: calls the kernels that the block needs, with this rank's Encoding.
        will_gather: returns for the headers whether the block gathers the containers; the same on all ranks.

    Raises:
        CollectiveError: a rank failed or ranks differ; the same on all ranks.
        Timeout: a rank does not take part.
    """
    channel, transaction = Channel.of(comm), transaction or Transaction()
    local, is_complete = Encoding(sparse=sparse), False

    encode = partial(
        encode_tensors,
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

    def prove() -> Failure | None:
        """Try the later parts of the call with this rank's tensors."""
        if decodes_own:
            try:
                local.decode_own()
            except Exception as error:
                return failure_of_decoding(error, channel.rank)
        if rehearsal is not None and local.gpu is None:
            settings = scheme.signature if isinstance(scheme, wc.Compressor) else local.operand.scheme_text
            key = proposal.operation, proposal.algorithm, settings, sparse, local.dtypes
            # A rehearsal must not write into the caller's memory.
            rehearse(channel, key, lambda: rehearsal(channel, replace(local, targets=Targets())))
        return None

    def settle() -> None:
        step, delivered = local.prepared, channel.call.is_delivered
        transaction.begin(step)
        broken = channel.closed is not None and step is not None and not step.needs_results
        transaction.settle(succeeds=is_complete, is_delivered=delivered, may_count=delivered or broken)

    with channel.collective() as call, settling(settle):
        try:
            start = time.perf_counter()
            if failure is None:
                failure = run_announced(channel, encode, lambda: (proposal, local.operand))
                if failure is None and (decodes_own or channel.size > 1):
                    failure = run_announced(channel, prove, lambda: (proposal, local.operand))
            call.encoding = time.perf_counter() - start
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
            transaction.begin(local.prepared)
            yield channel, local
            is_complete = call.is_delivered
        except CollectiveError as error:
            if is_shared(error):
                call.is_delivered = False
            raise
