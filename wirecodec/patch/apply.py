"""The public functions that read patches: apply one to a state, and join several."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.container.reader import blob_size
from wirecodec.errors import EncodeError
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits
from wirecodec.patch import digest
from wirecodec.patch.compare import compare
from wirecodec.patch.diff import write
from wirecodec.patch.named import sum_named
from wirecodec.patch.overlap import Layout
from wirecodec.patch.prepared import PreparedPatch, prepare_replacement
from wirecodec.patch.reading import prepare
from wirecodec.patch.shared import explain_shared
from wirecodec.patch.states import read_bits, read_state
from wirecodec.tensors import as_bytes


def apply(
    blob: Any, state: MutableMapping[str, Any], *, partial: bool = False, limits: DecodeLimits | None = None
) -> Any:
    """Apply a patch to a state, in place.

    Everything is checked before the first write: the bytes, the names, types, and the digests of the old and
    of the new tensors. A state that is the target already is left alone. Source: formats/spec/patch.md.

    Args:
        blob: a patch of ``diff`` or ``merge``: any buffer of bytes.
        state: {name: tensor}, or a torch module: NumPy arrays and torch tensors are changed in place, JAX
            arrays are replaced in the mapping.
        partial: True for a state that has only some of the tensors; the others are left out. The digest of
            the tensors that do not change is not checked then.
        limits: bounds on the cost of decoding; None for the defaults.

    Returns:
        The state.

    Raises:
        WireError: the bytes are not a valid patch, or exceed a limit; or the state is neither its base nor
            its target (SchemaMismatch with code "base", "base-tensors" or "base-shape"). Nothing has changed.
        ValueError: a tensor cannot be written. Nothing has changed.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> old, new = {"w": np.zeros(3, "f4")}, {"w": np.array([0, 1, 0], "f4")}
        >>> state = wc.apply(wc.diff(old, new), old)
        >>> state is old, state["w"]
        (True, array([0., 1., 0.], dtype=float32))
    """
    tensors, limits = read_state(state), limits or DEFAULT_LIMITS
    prepared = prepare_all(split(as_bytes(blob), limits), tensors, limits, partial_state=partial)
    commit(prepared, state, tensors)
    return state


def prepare_all(
    parts: Sequence[Bytes], tensors: Mapping[str, Any], limits: DecodeLimits, *, partial_state: bool = False
) -> PreparedPatch:
    """Decode patches in sequence, and check them against a state, which does not change.

    A RuntimeWarning tells of a state that is half-written.

    Args:
        parts: of ``split``.
        tensors: {name: tensor}.
        limits: bounds on the cost of decoding each.
        partial_state: whether the state may lack tensors that the patches have, and have others.

    Raises:
        WireError: a patch is not valid, exceeds a limit, or does not fit the state.
    """
    if len(parts) > 1:
        return _prepare_chain(parts, tensors, limits, partial_state=partial_state)
    prepared = prepare(parts[0], tensors, limits, partial_state=partial_state)
    _tell(prepared)
    return prepared


def split(data: Bytes, limits: DecodeLimits) -> list[Bytes]:
    """Divide a sequence of containers. Raises WireError."""
    parts, at = list[Bytes](), 0
    while at < data.size or not parts:
        size = blob_size(data[at:], limits)
        parts.append(data[at : at + size])
        at += size
    return parts


def commit(prepared: PreparedPatch, state: Any, tensors: dict[str, Any]) -> None:
    """Write into a mapping, or into the tensors of a module, which stay the same ones.

    Args:
        prepared: of ``tensors``.
        state: the mapping or the module.
        tensors: of ``read_state``.

    Raises:
        ValueError: a tensor cannot be written. Nothing has changed.
    """
    check_fits(prepared, state, tensors)
    prepared.commit(state if isinstance(state, MutableMapping) else tensors)


def check_fits(prepared: PreparedPatch, state: Any, tensors: Mapping[str, Any]) -> None:
    """Raise ValueError if a commit does not fit a module; a mapping takes all.

    It adds, removes or reshapes tensors, or writes into copies, as a hook of ``state_dict`` may return them.
    """
    if isinstance(state, MutableMapping):
        return
    own = [*state.named_parameters(), *state.named_buffers()]
    places = {Layout.of(tensor) for _, tensor in own}
    for one in prepared.writes:
        place = Layout.of(tensors[one.name]) if one.name in tensors else None
        if place is not None and place not in places:
            raise ValueError(
                f"state_dict() returns a copy of {one.name!r}, so that the module would not change; pass a"
                " mapping of its own tensors, such as dict(module.named_parameters())"
            )
    names = [*prepared.removed, *(one.name for one in prepared.writes if one.replaces(tensors))]
    if names:
        shared = explain_shared(tensors) if prepared.removed else ""
        remedy = shared or "; pass a mapping, such as a state_dict"
        raise ValueError(f"the patch adds, removes or reshapes tensors, such as {names[0]!r}{remedy}")


def digest_state(tensors: Mapping[str, Any]) -> int:
    """Return a digest of all tensors with their names, whatever their order."""

    return digest.close(sum_named(tensors, list(tensors)), len(tensors))


def _tell(prepared: PreparedPatch) -> None:
    if prepared.complete and (prepared.writes or prepared.removed):
        warnings.warn(
            f"the state was half-written: {len(prepared.complete)} tensors, such as {prepared.complete[0]!r},"
            " have the patch's bits already; the others are written now",
            RuntimeWarning,
            stacklevel=4,
        )


def _prepare_chain(
    parts: Sequence[Bytes], tensors: Mapping[str, Any], limits: DecodeLimits, *, partial_state: bool
) -> PreparedPatch:
    """Prepare patches in sequence as one: in copies first, so that all are checked before the first write."""
    target = dict(tensors)
    for number, part in enumerate(parts):
        try:
            _follow(part, tensors, target, limits, partial_state=partial_state)
        except ValueError:
            if number + 1 < len(parts) and _is_target(
                parts[-1], tensors, limits, partial_state=partial_state
            ):
                return PreparedPatch()
            raise
    return prepare_replacement(tensors, target)


def _follow(
    part: Bytes,
    tensors: Mapping[str, Any],
    target: dict[str, Any],
    limits: DecodeLimits,
    *,
    partial_state: bool = False,
) -> None:
    """Apply a patch to a state whose tensors are those of another one, or copies if they have changed."""
    commit_in_copies(prepare(part, target, limits, partial_state=partial_state), tensors, target)


def commit_in_copies(prepared: PreparedPatch, tensors: Mapping[str, Any], target: dict[str, Any]) -> None:
    """Write a patch into a state; those of its tensors that are also another state's are copied first."""
    for name in {one.name for one in prepared.writes} & {*tensors}:
        if target[name] is tensors[name]:
            bits = read_bits(name, tensors[name])
            target[name] = bits.copy_to_host().copy().view(bits.dtype).reshape(bits.shape)
    in_copies = [replace(one, memory=None) for one in prepared.writes]
    replace(prepared, writes=in_copies).commit(target)


def _is_target(part: Bytes, tensors: Mapping[str, Any], limits: DecodeLimits, *, partial_state: bool) -> bool:
    """Return whether a state is the target of the last patch of a chain."""
    try:
        prepared = prepare(part, tensors, limits, partial_state=partial_state)
    except ValueError:
        return False
    return not prepared.writes and not prepared.removed


def merge(
    blobs: Sequence[Any], base: Mapping[str, Any] | None = None, *, limits: DecodeLimits | None = None
) -> Bytes:
    """Join patches in sequence as one.

    Args:
        blobs: patches, each of which makes the base of the next one.
        base: the state before the first one, which does not change. The result is as small as that of
            ``diff``. None to join the patches without it: they follow each other, and keep their bytes.
        limits: bounds on the cost of decoding each; None for the defaults.

    Returns:
        A patch, a uint8 array.

    Raises:
        EncodeError: there is no patch.
        WireError: a patch is not valid, or does not follow the one before.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> states = [{"w": np.full(9, n, "f4")} for n in range(3)]
        >>> patches = [wc.diff(a, b) for a, b in zip(states, states[1:])]
        >>> wc.apply(wc.merge(patches, states[0]), states[0])["w"][0]
        np.float32(2.0)
    """
    if not blobs:
        raise EncodeError("there is no patch to merge")
    limits = limits or DEFAULT_LIMITS
    parts = [part for blob in blobs for part in split(as_bytes(blob), limits)]
    if base is None:
        return np.concatenate(parts)
    tensors = read_state(base)
    target = dict(tensors)
    for part in parts:
        _follow(part, tensors, target, limits)
    return write(compare(tensors, target, touched=False), touched=False, level=3)
