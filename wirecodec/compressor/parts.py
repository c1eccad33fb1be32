"""StepInParts: one step of a Compressor that is exchanged in parts, as buckets of gradients are ready.

Each part is encoded and exchanged like a step. The parts share the step's number and its schedule, and each
has a seed of its own. The Compressor's state changes only if all parts have been exchanged.
"""

from __future__ import annotations

import dataclasses

from wirecodec.compressor.compressor import Compressor
from wirecodec.prng import mix

_OWN = ("_state", "_seed", "_spare")


class StepInParts:
    """One step of a Compressor, in parts.

    Args:
        whole: the Compressor whose step this is. It takes no other step meanwhile.

    Attributes:
        compressor: encodes the parts. It has the residuals of ``whole``, and its memory.
    """

    def __init__(self, whole: Compressor) -> None:
        self._whole = whole
        self._before = whole._state
        self._parts = 0
        self.compressor = type(whole).__new__(type(whole))
        self.compressor.__dict__.update(vars(whole))
        if whole._state.loaded is not None:  # a part has some of the names only
            loaded = whole._state.loaded.with_names()
            self.compressor._state = dataclasses.replace(whole._state, loaded=loaded)
        self.compressor._spare = whole._spare.copy()  # memory that a part frees is used again if a part fails

    def next_part(self) -> Compressor:
        """Return the Compressor for the next part; all ranks exchange the same parts in the same order.

        A tensor is in one part only.
        """
        part = self.compressor
        part._state = dataclasses.replace(part._state, step=self._before.step)
        part._seed = mix(self._whole._seed, self._parts) if self._parts else self._whole._seed
        self._parts += 1
        return part

    @property
    def is_exchanged(self) -> bool:
        """Whether the latest part was committed."""
        return self.compressor._state.step > self._before.step

    def commit(self) -> None:
        """Replace the Compressor's state by the one after all parts.

        Raises:
            RuntimeError: another step was committed since this one began.
        """
        if self._whole._state is not self._before:
            raise RuntimeError("another step was committed since this one began")
        self._whole._spare = self.compressor._spare
        self._whole._state = dataclasses.replace(self.compressor._state, step=self._before.step + 1)

    def keep_attributes(self) -> None:
        """Copy attributes that a subclass has changed to the Compressor, whether or not the step counts."""
        changed = {name: value for name, value in vars(self.compressor).items() if name not in _OWN}
        self._whole.__dict__.update(changed)
