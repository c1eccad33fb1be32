"""Updates of federated clients: movements, and their encoder with its residuals.

A client's movement is its layers after training minus the layers that the server has sent. One container
holds the movements of all layers of floats.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import wirecodec as wc
from collectives.integrations.acceptance import is_float
from wirecodec.interop import as_integer, unmasked

Array: TypeAlias = "npt.NDArray[Any]"

CONTAINER = "wirecodec.update"
"""Name of the container among the arrays of an update; no layer may have it."""

_LAYERS = "layers"
_KINDS = ("residual/", "momentum/", "selector/")
_MAX_LISTED = 3


class UpdateError(ValueError):
    """Error of a client's own update. The message says how to go on."""


@dataclass(frozen=True)
class Dropped:
    """Update that a server has dropped.

    Attributes:
        round: of the server, from 1; 0 if it is not known.
        client: the node's id in Flower, the site's name in NVFlare.
        code: why; programs compare this.
        message: text for people.
    """

    round: int
    client: int | str
    code: str
    message: str

    def __str__(self) -> str:
        """Return one line for a log."""
        return f"round {self.round}: dropped the update of client {self.client}: {self.code}: {self.message}"


def explain_missing(package: str, error: ImportError) -> ImportError:
    """Return the error for an integration whose framework cannot be imported."""
    return ImportError(
        f"collectives.integrations needs {package}, which is missing or has another version ({error}):"
        f" pip install {package}; flwr needs Python 3.11 or newer",
        name=error.name,
    )


def measure_movements(start: Mapping[str, Array], end: Mapping[str, Array]) -> dict[str, Array]:
    """Return end - start of the layers of floats, in the types that the server has sent.

    Args:
        start: as the server has sent them.
        end: after training.

    Raises:
        UpdateError: a layer is new, missing or of another shape, or has the name of the container.
    """
    if CONTAINER in end:
        raise UpdateError(f"a layer is called {CONTAINER!r}, which is the container's name; rename the layer")
    changes = describe_changes(shapes_of(start), shapes_of(end))
    if changes:
        raise UpdateError(
            f"the trained layers are not those that the server has sent: {changes}. Return every array that"
            " came with the message, with its name and its shape. Name layers that stay on the client in"
            " wirecodec_mod(keep=…), or put them into a record of their own"
        )
    moved = {}
    for name, after in end.items():
        before = start[name]
        if is_float(before.dtype) and is_float(after.dtype):
            with np.errstate(all="ignore"):  # the encoder names an element that is not finite
                moved[name] = np.asarray(after - before).astype(before.dtype, copy=False)
    return moved


def shapes_of(arrays: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array."""
    return {name: tuple(x.shape) for name, x in arrays.items()}


def describe_changes(before: Mapping[str, tuple[int, ...]], after: Mapping[str, tuple[int, ...]]) -> str:
    """Describe the differences between two {name: shape}; "" if there are none."""
    new = [f"{name!r} is new" for name in after if name not in before]
    gone = [f"{name!r} is missing" for name in before if name not in after]
    other = [
        f"{name!r} has shape {after[name]} and had {before[name]}"
        for name in before
        if name in after and before[name] != after[name]
    ]
    changes = [*other, *gone, *new]
    more = f", and {len(changes) - _MAX_LISTED} more" if len(changes) > _MAX_LISTED else ""
    return ", ".join(changes[:_MAX_LISTED]) + more


class UpdateEncoder:
    """Encoder of one client's movements, whose residuals wait for the client's next update.

    Args:
        scheme, settings: of the Compressor.
        owner: the public function or class, for messages.
        strict: False to drop the residuals of layers that have changed, and those of another client.
    """

    def __init__(self, scheme: Any, settings: Mapping[str, Any], *, owner: str, strict: bool) -> None:
        self._compressor = wc.Compressor(scheme, **settings)
        self._owner = owner
        self._strict = strict
        self._layers: dict[str, tuple[int, ...]] | None = None

    @property
    def compressor(self) -> wc.Compressor:
        """The Compressor, with the residuals of this client."""
        return self._compressor

    def encode(self, movements: Mapping[str, Any], client: int) -> bytes:
        """Encode movements as one container, and keep what it does not carry.

        Args:
            movements: {name: array}.
            client: number of the client; it is mixed into the seed.

        Raises:
            UpdateError: the layers are not those of the last update; nothing has changed.
            EncodeError: a movement cannot be encoded, for example NaN; the residuals have not changed.
        """
        layers = shapes_of(movements)
        changes = describe_changes(self._layers, layers) if self._layers is not None else ""
        if changes and self._strict:
            raise UpdateError(
                f"the layers have changed since this client's last update: {changes}. What it has not sent of"
                " the old layers would be lost. Restore the layers, or pass strict=False to"
                f" {self._owner}, which drops the residuals of the layers that changed"
            )
        if changes:
            self._drop_changed(layers)
        prepared = self._compressor.prepare(movements, rank=client)
        blob: bytes = prepared.blob_on_host.tobytes()
        prepared.commit()
        self._layers = layers
        return blob

    def _drop_changed(self, layers: Mapping[str, tuple[int, ...]]) -> None:
        """Drop the state of layers that are new, gone, or of another shape."""
        known = self._layers or {}
        kept = {name for name, shape in layers.items() if known.get(name) == shape}
        state = {
            key: x
            for key, x in self._compressor.state_dict().items()
            if not key.startswith(_KINDS) or key.partition("/")[2] in kept
        }
        self._compressor.load_state_dict(state, strict=False)  # the arrays that were dropped are missing

    def state_dict(self) -> dict[str, Array]:
        """Return the state as flat {str: ndarray}: that of the Compressor, and the layers."""
        text = json.dumps(self._layers or {})
        return {
            **self._compressor.state_dict(),
            _LAYERS: np.frombuffer(text.encode(), np.uint8).copy(),
        }

    def load_state_dict(self, state: Mapping[str, Array], client: int) -> None:
        """Restore a state of ``state_dict``.

        Args:
            state: as it was saved.
            client: number of the client that continues with it.

        Raises:
            UpdateError: another client has saved it.
            ValueError: a key or its array is not valid; nothing changes.
        """
        own = dict(state)
        layers = _read_layers(own.pop(_LAYERS, None))
        saved_by = as_integer(unmasked("rank", own.get("rank")), "rank")
        if saved_by != client and self._strict:
            raise UpdateError(
                f"the residuals were saved by client {saved_by}, and this is client {client}: those of"
                " another client would count twice. Restore this client's own state, or pass strict=False to"
                f" {self._owner}, which drops them"
            )
        self._compressor.load_state_dict(own, strict=self._strict)
        self._layers = layers or None


def _read_layers(saved: Any) -> dict[str, tuple[int, ...]]:
    """Return the layers of a saved state, with their shapes; raise ValueError if they are damaged."""
    try:
        layers = json.loads(bytes(np.asarray(unmasked(_LAYERS, saved), np.uint8)))
        return {name: tuple(as_integer(size, "a size") for size in shape) for name, shape in layers.items()}
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{_LAYERS}: it is no table of layers with their shapes: {error}") from None
