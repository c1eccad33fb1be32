"""One collective call on one rank: its progress, and the effect of an exception.

``Channel.collective`` is the only guard of this package. Every operation runs inside it, from its first
header to its last payload:

    the exception is raised         this rank                           the other ranks
    before anything was sent        the call counts as left out         one verdict at its next call
    as a verdict of all ranks       channel usable, step rolled back    the same verdict
    before the last payload         channel closed, step rolled back    Timeout, step rolled back
    while payloads are under way    the transfer is completed first     complete the transfer
    after the last payload          channel usable, step committed      step committed
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Call"]


@dataclass
class Call:
    """Progress of one collective call.

    Attributes:
        begun: whether another rank may have received anything of this call.
        last: whether the transfer that comes next is the last one of the call.
        delivered: whether all ranks have all that they need of each other.
        learning: whether the channels of all ranks have yet to change alike, after the last transfer.
    """

    begun: bool = False
    last: bool = False
    delivered: bool = False
    learning: bool = False

    @property
    def in_step(self) -> bool:
        """Whether the next call of this rank cannot be taken for a part of this one."""
        return self.delivered and not self.learning
