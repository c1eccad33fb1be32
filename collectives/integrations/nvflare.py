"""NVFlare (2.9): a pair of DXO filters that send differences of weights as containers, on the host.

    recipe.add_client_output_filter(WirecodecEncode("topk(0.01) | rice | qsgd(bits=4)"), tasks=["train"])
    recipe.add_server_input_filter(WirecodecDecode(max_norm=10.0), tasks=["train"])

Place the encoder last of a client's filters, and the decoder first of the server's. They take DXOs of the
kind WEIGHT_DIFF. Those of other kinds pass as they are; a client logs a warning for WEIGHTS, which are no
movement. NVFlare confirms nothing to a filter, so residuals advance when the filter returns. They are in the
memory of the client's job: a job that starts again begins without.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.errors import Refused
from collectives.integrations.updates import (
    CONTAINER,
    Array,
    Dropped,
    Spec,
    UpdateEncoder,
    UpdateError,
    check_finite,
    check_max_norm,
    check_norm,
    decode_some,
    explain_missing,
)
from wirecodec.interop import BFLOAT16, as_flat, dtype_named

try:
    from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
    from nvflare.apis.dxo_filter import DXOFilter
    from nvflare.apis.filter import ContentBlockedException
    from nvflare.app_common.app_constant import AppConstants
except ImportError as error:
    raise explain_missing("nvflare", error) from error

__all__ = ["Dropped", "UpdateBlocked", "WirecodecDecode", "WirecodecEncode"]

_ALGORITHM = "wirecodec"
_IS_TORCH = "wirecodec.torch"
_KINDS = [DataKind.WEIGHT_DIFF]


class UpdateBlocked(ContentBlockedException):  # type: ignore[misc]
    """Error of a filter: a client's update is not acceptable.

    Attributes:
        dropped: the client, the code and the reason.
    """

    def __init__(self, dropped: Dropped) -> None:
        super().__init__(str(dropped))
        self.dropped = dropped


class WirecodecEncode(DXOFilter):  # type: ignore[misc]
    """Filter of a client's results: the floats of a WEIGHT_DIFF travel as one container.

    Integers and other data stay as they are, and so does the meta information. The filter keeps this
    client's residuals. If it raises, NVFlare sends TASK_RESULT_FILTER_ERROR in place of the result.

    Args:
        scheme: of the Compressor: one for all layers, or {glob: scheme}; None for lossless.
        strict: False to drop the residuals of layers that have changed since the last round. By default, the
            filter raises an error that names them.
        **compressor: further arguments of the Compressor. A job's configuration is JSON. For arguments
            that are objects, such as ``feedback``, derive a class whose ``__init__`` passes them.

    Raises:
        EncodeError: the scheme or an argument is not valid.

    Examples:
        >>> from collectives.integrations import nvflare  # doctest: +SKIP
        >>> encode = nvflare.WirecodecEncode("topk(0.01) | rice | qsgd(bits=4)")  # doctest: +SKIP
    """

    def __init__(self, scheme: Any = None, strict: bool = True, **compressor: Any) -> None:
        super().__init__(_KINDS, _KINDS)
        # NVFlare writes a job's configuration from attributes with the arguments' names.
        self.scheme, self.strict = scheme, strict
        self.compressor = {**compressor.pop("compressor", {}), **compressor}
        if self.compressor.get("names") is False:
            raise ValueError("names is False; the server needs the names of the layers")
        self._encoder = UpdateEncoder(scheme, self.compressor, owner="WirecodecEncode", strict=strict)
        self._warned = False

    @property
    def state(self) -> wc.Compressor:
        """The Compressor, whose ``state_dict`` has the residuals."""
        return self._encoder.compressor

    def process(self, shareable: Any, fl_ctx: Any) -> Any:
        """Filter a result; log a warning for weights that are no differences."""
        kind = _kind_of(shareable)
        if kind == DataKind.COLLECTION:
            raise UpdateError(
                "WirecodecEncode takes one model; a COLLECTION would mix the residuals of several"
            )
        if not self._warned and kind == DataKind.WEIGHTS:
            self._warned = True
            self.log_warning(
                fl_ctx,
                "WirecodecEncode leaves WEIGHTS as they are: only differences are encoded. Set"
                " params_transfer_type=TransferType.DIFF in the recipe, or send ParamsType.DIFF",
            )
        return super().process(shareable, fl_ctx)

    def process_dxo(self, dxo: Any, shareable: Any, fl_ctx: Any) -> Any:
        """Return a DXO with the container. Raises UpdateError or EncodeError."""
        algorithm = dxo.get_meta_prop(MetaKey.PROCESSED_ALGORITHM)
        if algorithm is not None or CONTAINER in dxo.data:
            raise UpdateError(
                f"the differences are processed already ({algorithm or CONTAINER}); place WirecodecEncode"
                " before the filter that does so, or take that filter out"
            )
        floats = {name: x for name, x in dxo.data.items() if _has_floats(x)}
        client = zlib.crc32(fl_ctx.get_identity_name().encode("utf-8", "surrogatepass"))
        blob = self._encoder.encode({name: _as_numpy(x) for name, x in floats.items()}, client)
        others = {name: x for name, x in dxo.data.items() if name not in floats}
        meta = {**_copy_meta(dxo), MetaKey.PROCESSED_ALGORITHM: _ALGORITHM}
        if any(_is_torch(x) for x in floats.values()):
            meta[_IS_TORCH] = True
        return DXO(dxo.data_kind, {CONTAINER: blob, **others}, meta)


class WirecodecDecode(DXOFilter):  # type: ignore[misc]
    """Filter of the server's results: containers become arrays again, or the result is refused.

    If the context has the global model, which FedAvg and other workflows store there, the names and the
    shapes must be those of its layers. A WEIGHT_DIFF without a container is checked, too, and passes as it
    is. An update that is not acceptable is logged, and listed in ``dropped``. The filter then raises
    UpdateBlocked, and NVFlare replaces the result by TASK_RESULT_FILTER_ERROR. A workflow ends the job if
    too few results are left: FedAvg needs all results of a round, unless it has ``ignore_result_error``.

    Args:
        limits: of the decoder, or a dict of its arguments; None for those that follow from the model.
        max_norm: largest L2 norm of a client's differences; None for any.
        skip: True to pass an update without arrays in place of one that is not acceptable, and not to raise.
            FedAvg leaves it out, and goes on with the others.

    Attributes:
        dropped: the results that were refused so far, in order.

    Raises:
        ValueError: an argument is not valid.

    Examples:
        >>> from collectives.integrations import nvflare  # doctest: +SKIP
        >>> decode = nvflare.WirecodecDecode(max_norm=10.0)  # doctest: +SKIP
    """

    def __init__(self, limits: Any = None, max_norm: float | None = None, skip: bool = False) -> None:
        super().__init__(_KINDS, _KINDS)
        self.limits = wc.DecodeLimits(**limits) if isinstance(limits, Mapping) else limits
        self.max_norm = check_max_norm(max_norm)
        self.skip = skip
        self.dropped: list[Dropped] = []

    def process_dxo(self, dxo: Any, shareable: Any, fl_ctx: Any) -> Any:
        """Return a DXO with arrays, or one without if this update is skipped. Raises UpdateBlocked."""
        weights = _global_weights(fl_ctx)
        try:
            if dxo.get_meta_prop(MetaKey.PROCESSED_ALGORITHM) == _ALGORITHM:
                return self._decode(dxo, weights)
            self._check_plain(dxo, weights)
            return None
        except Refused as refused:
            peer = fl_ctx.get_peer_context()
            name = peer.get_identity_name() if peer is not None else ""
            number = shareable.get_header(AppConstants.CURRENT_ROUND, 0)
            number = number if isinstance(number, int) else 0
            self.dropped.append(Dropped(number, name, refused.code, refused.message))
            if not self.skip:
                raise UpdateBlocked(self.dropped[-1]) from refused
            self.log_warning(fl_ctx, str(self.dropped[-1]))
            return DXO(dxo.data_kind, {}, _copy_meta(dxo))

    def _decode(self, dxo: Any, weights: Mapping[str, Any] | None) -> Any:
        blob = dxo.data.get(CONTAINER)
        if not isinstance(blob, bytes | bytearray):
            raise Refused("record", f"the container is {type(blob).__name__}; it must be bytes")
        others = {name: x for name, x in dxo.data.items() if name != CONTAINER}
        is_torch = dxo.get_meta_prop(_IS_TORCH) is True
        schema = None
        if weights is not None:
            schema = {name: _spec_of(x) for name, x in weights.items() if _has_floats(x)}
            is_torch = any(_is_torch(x) for x in weights.values())
            if unknown := others.keys() - weights.keys():
                raise Refused("schema-names", f"the model has no array {min(map(repr, unknown))}")
        arrays = decode_some(blob, schema, self.limits, self.max_norm)
        if both := arrays.keys() & others.keys():
            raise Refused("schema-names", f"the array {min(both)!r} is there twice")
        _check_arrays(others, weights)
        meta = _copy_meta(dxo)
        result = {name: _as_torch(x) if is_torch else x for name, x in arrays.items()}
        return DXO(dxo.data_kind, {**result, **others}, meta)

    def _check_plain(self, dxo: Any, weights: Mapping[str, Any] | None) -> None:
        """Check differences that no container carries."""
        floats = _check_arrays(dxo.data, weights)
        check_norm(floats, self.max_norm)


def _check_arrays(data: Mapping[str, Any], weights: Mapping[str, Any] | None) -> dict[str, Array]:
    """Return the arrays of a stranger that count in the norm; raise Refused if one is not acceptable.

    Integers count in it if they take the place of the model's floats.
    """
    floats = {}
    for name, x in data.items():
        layer = None if weights is None else weights.get(name)
        if layer is not None and _shape_of(x) != _shape_of(layer):
            text = f"layer {name!r} has shape {_shape_of(x)}; the model has {_shape_of(layer)}"
            raise Refused("schema-shape", text)
        if _has_floats(x):
            floats[name] = _as_numpy(x)
        elif _has_floats(layer):
            if not isinstance(x, np.ndarray) or x.dtype.kind not in "biuf":
                raise Refused(
                    "array", f"layer {name!r} is {type(x).__name__}; it must be an array of numbers"
                )
            floats[name] = x.astype(np.float64)
    check_finite(floats)
    return floats


def _copy_meta(dxo: Any) -> dict[str, Any]:
    """Return the meta information without that of the filters; NVFlare copies the filters' history itself."""
    own = {MetaKey.PROCESSED_ALGORITHM, MetaKey.FILTER_HISTORY, _IS_TORCH}
    return {key: value for key, value in dxo.meta.items() if key not in own}


def _kind_of(shareable: Any) -> Any:
    """Return the kind of a result's data, or None if it has none."""
    try:
        return from_shareable(shareable).data_kind
    except (ValueError, AttributeError):
        return None


def _global_weights(fl_ctx: Any) -> Mapping[str, Any] | None:
    """Return the arrays of the global model, or None if the workflow has not stored it."""
    model = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)
    weights = model.get("weights") if isinstance(model, Mapping) else None
    return weights if isinstance(weights, Mapping) and weights else None


def _is_torch(x: Any) -> bool:
    return "torch" in sys.modules and isinstance(x, sys.modules["torch"].Tensor)


def _has_floats(x: Any) -> bool:
    """Return whether an object is an array of floats that a container carries."""
    if not (isinstance(x, np.ndarray) or _is_torch(x)):
        return False
    try:
        dtype_named(x.dtype)
    except ValueError:
        return False
    return True


def _shape_of(x: Any) -> tuple[int, ...]:
    return tuple(getattr(x, "shape", ()))


def _spec_of(x: Any) -> Spec:
    return _shape_of(x), dtype_named(x.dtype)


def _as_numpy(x: Any) -> Array:
    """View an array of floats on the host; copy one of a GPU."""
    if _is_torch(x):
        x = x.detach().cpu()
    flat = as_flat(x)
    return flat.data.reshape(flat.shape)


def _as_torch(x: Array) -> Any:
    """Return a tensor on the CPU; torch cannot take NumPy's bfloat16."""
    import torch

    if x.dtype == BFLOAT16:
        return torch.from_numpy(x.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(x)
