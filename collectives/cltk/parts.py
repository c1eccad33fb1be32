"""CLT-k of one step that is exchanged in parts, as buckets of gradients are ready."""

from __future__ import annotations

from collectives.cltk.allreduce import CLTk


class CLTkInParts:
    """One step of a CLTk, in parts, which all have the same leader.

    Args:
        whole: the CLTk whose step this is. It takes no other step meanwhile, and changes with ``commit``.

    Attributes:
        compressor: exchanges the parts.
    """

    def __init__(self, whole: CLTk) -> None:
        self._whole = whole
        self.compressor = type(whole).__new__(type(whole))
        self.compressor.__dict__.update(vars(whole))
        self.compressor._residuals = whole._residuals.fork()
        if whole._loaded is not None:  # a part has some of the names only
            self.compressor._loaded = whole._loaded.with_names()

    def next_part(self) -> CLTk:
        """Return the CLTk for the next part; a tensor is in one part only."""
        self.compressor._step = self._whole._step
        return self.compressor

    @property
    def is_exchanged(self) -> bool:
        """Whether the latest part was exchanged."""
        return self.compressor._step > self._whole._step

    def commit(self) -> None:
        """Take the step: replace residuals and step by those after all parts."""
        whole, part = self._whole, self.compressor
        whole._residuals, whole._step = part._residuals, whole._step + 1
        whole._rank, whole._loaded = part._rank, None

    def keep_attributes(self) -> None:
        """Do nothing: a CLTk has no attributes that change in a step that fails."""
