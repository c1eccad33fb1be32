"""NVFlare (2.9): a pair of DXO filters that send differences of weights as containers, on the host.

    recipe.add_client_output_filter(WirecodecEncode("topk(0.01) | rice | qsgd(bits=4)"), tasks=["train"])
    recipe.add_server_input_filter(WirecodecDecode(max_norm=10.0), tasks=["train"])

Place the encoder last of a client's filters, and the decoder first of the server's. The encoder takes DXOs of
the kind WEIGHT_DIFF, and logs a warning for WEIGHTS, which are no movement. The decoder refuses results of
another kind than the workflow's, because FedAvg would add them to the others. NVFlare confirms nothing to a
filter, so residuals advance when the filter returns. They are in the memory of the client's job: a job that
starts again begins without.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

import wirecodec as wc
from collectives.errors import Refused
from collectives.integrations.acceptance import (
    Acceptance,
    Array,
    Model,
    Sent,
    arrays_in,
    check_finite,
    check_max_norm,
    check_metrics,
    check_weight,
    is_float,
    is_tensor,
    judge,
    quote,
    read_array,
)
from collectives.integrations.updates import CONTAINER, Dropped, UpdateEncoder, UpdateError, explain_missing
from wirecodec.interop import BFLOAT16, as_flat, dtype_named

try:
    from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
    from nvflare.apis.dxo_filter import DXOFilter
    from nvflare.apis.filter import ContentBlockedException
    from nvflare.apis.fl_constant import ReturnCode
    from nvflare.app_common.app_constant import AppConstants
except ImportError as error:
    raise explain_missing("nvflare", error) from error

__all__ = ["Dropped", "UpdateBlocked", "WirecodecDecode", "WirecodecEncode"]

_ALGORITHM = "wirecodec"
_IS_TORCH = "wirecodec.torch"
_KINDS = [DataKind.WEIGHT_DIFF]
_STEPS = MetaKey.NUM_STEPS_CURRENT_ROUND
_VALUES: dict[str, Literal["movements", "model"]] = {
    DataKind.WEIGHT_DIFF: "movements",
    DataKind.WEIGHTS: "model",
}


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
        if any(is_tensor(x) for x in floats.values()):
            meta[_IS_TORCH] = True
        return DXO(dxo.data_kind, {CONTAINER: blob, **others}, meta)


class WirecodecDecode(DXOFilter):  # type: ignore[misc]
    """Filter of the server's results: containers become arrays again, or the result is refused.

    Add it to tasks of training only. Results are checked whether they have a container or not: kind, weight,
    meta information, and all arrays together. If the context has the global model, which FedAvg and other
    workflows store there, names and shapes must be those of its layers, and arrays get their types. A client
    may leave layers out: FedAvg takes the mean of each over those who sent it.

    An update that is not acceptable is logged, and listed in ``dropped``. The filter then raises
    UpdateBlocked, and NVFlare replaces the result by TASK_RESULT_FILTER_ERROR. A workflow ends the job if too
    few results are left: FedAvg needs all results of a round, unless it has ``ignore_result_error``.

    Args:
        limits: of the decoder, or a dict of its arguments; None for those that follow from the model.
        max_norm: largest L2 norm of all arrays of a client's result together; None for any. Counters of the
            model, such as ``num_batches_tracked``, do not count. WEIGHTS count as differences from the model.
        skip: True to pass an update without arrays in place of one that is not acceptable, and not to raise.
            FedAvg leaves it out, and goes on with the others.
        kind: of the workflow's results, "WEIGHT_DIFF" or "WEIGHTS". METRICS are accepted, too, because FedAvg
            leaves them out; all other kinds are refused.

    Attributes:
        dropped: the results that were refused so far, in order.

    Raises:
        ValueError: an argument is not valid.

    Examples:
        >>> from collectives.integrations import nvflare  # doctest: +SKIP
        >>> decode = nvflare.WirecodecDecode(max_norm=10.0)  # doctest: +SKIP
    """

    def __init__(
        self,
        limits: Any = None,
        max_norm: float | None = None,
        skip: bool = False,
        kind: str = "WEIGHT_DIFF",
    ) -> None:
        super().__init__(None, None)
        if kind not in ("WEIGHT_DIFF", "WEIGHTS"):
            raise ValueError(f"kind is {kind!r}; it must be 'WEIGHT_DIFF' or 'WEIGHTS'")
        # NVFlare writes a job's configuration from attributes with the arguments' names.
        self.limits = wc.DecodeLimits(**limits) if isinstance(limits, Mapping) else limits
        self.max_norm = check_max_norm(max_norm)
        self.skip, self.kind = skip, kind
        self.dropped: list[Dropped] = []
        self._acceptance = Acceptance(self.limits, self.max_norm, optional=("*",), any_type=True)
        self._counters: set[str] = set()

    def process(self, shareable: Any, fl_ctx: Any) -> Any:
        """Filter a result. Errors, and data that are no DXO, pass: no workflow takes arrays from them."""
        code = shareable.get_return_code()
        if isinstance(code, str) and code not in ("", ReturnCode.OK):  # FedAvg takes "" for OK
            return shareable
        try:
            dxo = from_shareable(shareable)
        except Exception:  # as in NVFlare's own filters, and in its aggregators
            return shareable
        history = dxo.get_filter_history()
        if not (isinstance(history, list) and all(isinstance(one, str) for one in history)):
            dxo.remove_meta_props([MetaKey.FILTER_HISTORY])  # NVFlare's method would take its truth value
        # NVFlare's method does not filter a DXO without data, whose weight may be no number.
        apply = self._apply_filter if dxo.data else self.process_dxo
        return apply(dxo, shareable, fl_ctx).update_shareable(shareable)

    def process_dxo(self, dxo: Any, shareable: Any, fl_ctx: Any) -> Any:
        """Return a DXO with arrays, or one without if this update is skipped. Raises UpdateBlocked."""
        weights = _global_weights(fl_ctx)
        try:
            return judge(lambda: self._accept(dxo, weights))
        except Refused as refused:
            peer = fl_ctx.get_peer_context()
            name = peer.get_identity_name() if peer is not None else ""
            number = shareable.get_header(AppConstants.CURRENT_ROUND, 0)
            number = number if isinstance(number, int) and 0 <= number < 2**63 else 0
            self.dropped.append(Dropped(number, name, refused.code, refused.message))
            if not self.skip:
                raise UpdateBlocked(self.dropped[-1]) from refused
            self.log_warning(fl_ctx, str(self.dropped[-1]))
            return DXO(self.kind, {}, _weight_of(dxo))

    def _accept(self, dxo: Any, weights: Mapping[str, Any] | None) -> Any:
        """Return a DXO of what was checked; raise Refused if it is not acceptable."""
        kind = dxo.data_kind if isinstance(dxo.data_kind, str) else ""
        has_container = _check_meta(dxo)
        meta = _copy_meta(dxo)
        beside = arrays_in(meta, "meta")
        if kind == DataKind.METRICS and not has_container:
            check_metrics("metrics", dxo.data, arrays=True)
            numbers = {**beside, **arrays_in(dxo.data, "metrics")}
            self._acceptance.accept(Sent(None, {}, "movements", numbers), None)
            return DXO(kind, dxo.data, meta)
        if kind != self.kind or (has_container and kind != DataKind.WEIGHT_DIFF):
            text = f"the result is of the kind {quote(kind)}; the workflow's kind is {self.kind!r}"
            raise Refused("kind", text)
        if kind == DataKind.WEIGHTS and weights is None and self.max_norm is not None:
            text = "max_norm needs the global model, which the workflow has not stored in its context"
            raise Refused("model", text)
        sent = Sent(*_split(dxo.data, has_container), _VALUES[kind], beside)
        arrays: dict[str, Any] = self._acceptance.accept(sent, self._model_of(weights))
        _check_products(arrays, dxo.get_meta_prop(_STEPS, 1))
        source = dxo.data if weights is None else weights
        if any(map(is_tensor, source.values())) or (weights is None and dxo.get_meta_prop(_IS_TORCH) is True):
            arrays = {name: _as_torch(x) for name, x in arrays.items()}
        return DXO(kind, arrays, meta)

    def _model_of(self, weights: Mapping[str, Any] | None) -> Model | None:
        """Return the model, and note which of its arrays are counters: FedAvg makes them floats."""
        if weights is None:
            return None
        arrays = {name: read_array(name, x) for name, x in weights.items()}
        self._counters |= {name for name, x in arrays.items() if not is_float(x.dtype)}
        return Model(arrays, frozenset(self._counters))


def _check_meta(dxo: Any) -> bool:
    """Return whether the data have a container; raise Refused if FedAvg could not use the meta data."""
    algorithm = dxo.get_meta_prop(MetaKey.PROCESSED_ALGORITHM)
    if algorithm is not None and not (isinstance(algorithm, str) and algorithm == _ALGORITHM):
        raise Refused("record", "another filter has processed the result; place WirecodecDecode first")
    if dxo.get_meta_prop(_STEPS) is not None:
        check_weight(_STEPS, dxo.get_meta_prop(_STEPS))
    check_metrics(MetaKey.INITIAL_METRICS, dxo.get_meta_prop(MetaKey.INITIAL_METRICS))
    return algorithm is not None


def _check_products(arrays: Mapping[str, Array], weight: Any) -> None:
    """Raise Refused if weight times value is Inf: aggregators multiply in the type of the layer."""
    factor = 1.0 if weight is None else float(weight)
    with np.errstate(all="ignore"):
        check_finite({f"{name}, times its weight": np.asarray(x * factor) for name, x in arrays.items()})


def _split(data: Mapping[str, Any], has_container: bool) -> tuple[Any, dict[str, Array]]:
    """Return the container, or None, and the arrays beside it."""
    plain = dict(data)
    blob = plain.pop(CONTAINER, None) if has_container else None
    if has_container and not isinstance(blob, bytes | bytearray):
        raise Refused("record", f"the container is {type(blob).__name__}; it must be bytes")
    return blob, {name: read_array(name, x) for name, x in plain.items()}


def _weight_of(dxo: Any) -> dict[str, Any]:
    """Return the weight as meta information of a result that is skipped, if an aggregator can read it."""
    steps = dxo.get_meta_prop(_STEPS)
    try:
        check_weight(_STEPS, steps)
    except Refused:
        return {}
    return {_STEPS: steps}


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


def _has_floats(x: Any) -> bool:
    """Return whether an object is an array of floats that a container carries."""
    if not (isinstance(x, np.ndarray) or is_tensor(x)):
        return False
    try:
        dtype_named(x.dtype)
    except ValueError:
        return False
    return True


def _as_numpy(x: Any) -> Array:
    """View an array of floats on the host; copy one of a GPU."""
    if is_tensor(x):
        x = x.detach().cpu()
    flat = as_flat(x)
    return flat.data.reshape(flat.shape)


def _as_torch(x: Array) -> Any:
    """Return a tensor on the CPU; torch cannot take NumPy's bfloat16."""
    import torch

    if x.dtype == BFLOAT16:
        return torch.from_numpy(x.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(x)
