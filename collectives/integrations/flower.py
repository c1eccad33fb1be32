"""Flower (flwr 1.42): a client mod that sends movements as containers, and a strategy that accepts them.

    client   ClientApp(mods=[wirecodec_mod("topk(0.01) | rice | qsgd(bits=4)")])
    server   Compressed(FedAvg(), max_norm=10.0).start(grid=grid, initial_arrays=arrays)

Flower confirms nothing to a client, so its residuals advance when it answers. If the answer is lost, or the
server drops it, the part of the movement that it carried is lost. The model travels to the clients as before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import wirecodec as wc
from collectives.errors import Refused
from collectives.integrations.acceptance import Acceptance, Model, as_globs, check_max_norm, matches
from collectives.integrations.acceptance import Array as NumpyArray
from collectives.integrations.flower_replies import STYPE, Checks, Signature, most_common, signature_of
from collectives.integrations.updates import (
    CONTAINER,
    Dropped,
    UpdateEncoder,
    UpdateError,
    explain_missing,
    measure_movements,
)

try:
    from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
    from flwr.common.constant import ErrorCode
    from flwr.serverapp.strategy import Strategy
except ImportError as error:
    raise explain_missing("flwr", error) from error

__all__ = ["Compressed", "Dropped", "wirecodec_mod"]

_log = logging.getLogger("flwr")
_STATE = "wirecodec."
_RANKS = 2**62
Mod = Callable[[Message, Context, Callable[[Message, Context], Message]], Message]


def wirecodec_mod(
    scheme: Any = None,
    key: str = "arrays",
    *,
    strict: bool = True,
    keep: Iterable[str] = (),
    **compressor: Any,
) -> Mod:
    """Return a client mod that answers messages of training with compressed movements.

    Place it first in the list of mods, so that the others see plain arrays. The arrays of floats travel in
    one container, others as they are. The residuals, the step and the client's number are in
    ``Context.state["wirecodec.<key>"]``. They change only if the train function returns a reply without an
    error. If a movement cannot be encoded, the client answers with an error, which says how to go on.

    Args:
        scheme: of the Compressor: one for all layers, or {key: scheme}; None for lossless.
        key: of the ArrayRecord, in the message and in the reply. Other records are left as they are.
        strict: False to drop the residuals of layers that have changed since the last round. By default, the
            client answers with an error that names them.
        keep: globs of arrays that this client keeps to itself, such as ``["bn.*"]``. They are not sent,
            whether the train function returns them or not. The server has them in ``Compressed(optional=…)``.
        **compressor: further arguments of the Compressor, such as ``feedback`` and ``bytes_per_step``.

    Returns:
        The mod, for ``ClientApp(mods=[…])``.

    Raises:
        EncodeError: the scheme or an argument is not valid.

    Examples:
        >>> from collectives.integrations import flower  # doctest: +SKIP
        >>> app = ClientApp(mods=[flower.wirecodec_mod("topk(0.01) | rice | qsgd")])  # doctest: +SKIP
    """

    kept = as_globs("keep", keep)

    def make_encoder() -> UpdateEncoder:
        return UpdateEncoder(scheme, compressor, owner="wirecodec_mod", strict=strict)

    make_encoder()

    def mod(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
        if message.metadata.message_type.partition(".")[0] != "train":
            return call_next(message, context)
        sent = message.content.array_records.get(key)
        start = None if sent is None else dict(sent.items())
        saved = context.state.array_records.get(_STATE + key)
        saved = None if saved is None else dict(saved.items())
        reply = call_next(message, context)
        if reply.has_error() or key not in reply.content.array_records:
            return reply
        try:
            if start is None:
                raise UpdateError(
                    f"the reply has an ArrayRecord {key!r}, and the message has none, so there is no"
                    f" movement. The message has {sorted(message.content)}; pass another key to wirecodec_mod"
                )
            encoder = make_encoder()
            end = _without(reply.content[key], kept)
            record = _encode(encoder, context.node_id % _RANKS, _without(start, kept), end, saved)
        except ValueError as error:  # EncodeError and UpdateError, too
            reason = f"wirecodec_mod: {error}"
            _log.error(reason)
            return Message(Error(code=ErrorCode.MOD_FAILED_PRECONDITION, reason=reason), reply_to=message)
        reply.content = RecordDict({**reply.content, key: record})
        context.state[_STATE + key] = _as_record(encoder.state_dict())
        return reply

    return mod


def _encode(
    encoder: UpdateEncoder,
    client: int,
    start: Mapping[str, Array],
    end: Mapping[str, Array],
    saved: Mapping[str, Array] | None,
) -> ArrayRecord:
    """Return the record of a reply: the container, and the arrays that it does not carry."""
    if saved is not None:
        encoder.load_state_dict({name: x.numpy() for name, x in saved.items()}, client)
    arrays = {name: x.numpy() for name, x in end.items()}
    moved = measure_movements({name: x.numpy() for name, x in start.items()}, arrays)
    blob = encoder.encode(moved, client)
    container = Array(dtype="uint8", shape=(len(blob),), stype=STYPE, data=blob)
    return ArrayRecord({CONTAINER: container, **{name: x for name, x in end.items() if name not in moved}})


def _without(arrays: Mapping[str, Array], globs: Iterable[str]) -> dict[str, Array]:
    """Return the arrays whose names match no glob."""
    return {name: x for name, x in arrays.items() if not matches(name, globs)}


def _as_record(arrays: Mapping[str, NumpyArray]) -> ArrayRecord:
    return ArrayRecord({name: Array(x) for name, x in arrays.items()})


class Compressed(Strategy):  # type: ignore[misc]
    """Strategy that decodes and checks the replies of training, and passes them to another strategy.

    A reply that is not acceptable is dropped, logged, and listed in ``dropped``; the strategy does not see
    it. Replies of clients without the mod are checked in the same way. The strategy gets all arrays in the
    types of the model. Weights are those of the strategy, which the clients claim themselves.

    Args:
        strategy: any Strategy whose replies have the arrays of the model, by the names of the message.
        limits: of the decoder; None for those that follow from the model.
        max_norm: largest L2 norm of a client's movement; None for any.
        key: of the ArrayRecord; None for ``strategy.arrayrecord_key``.
        optional: globs of arrays that a client may leave out, such as ``["bn.*"]``. In the mean, a client
            that leaves an array out has not moved it.

    Attributes:
        strategy: the strategy inside.
        dropped: the replies that were dropped so far, in order.
        bytes_received: {round: bytes of all arrays in the replies of training, also of those dropped}.

    Raises:
        TypeError: the strategy has a ``start`` of its own, which would not call this object.
        ValueError: ``max_norm`` or ``optional`` is not valid.

    Examples:
        >>> from collectives.integrations import flower  # doctest: +SKIP
        >>> flower.Compressed(FedAvg(), max_norm=10.0).start(grid, arrays)  # doctest: +SKIP
    """

    def __init__(
        self,
        strategy: Strategy,
        limits: wc.DecodeLimits | None = None,
        max_norm: float | None = None,
        key: str | None = None,
        optional: Iterable[str] = (),
    ) -> None:
        if type(strategy).start is not Strategy.start:
            raise TypeError(
                f"{type(strategy).__name__} has a start() of its own, which would call its own methods and"
                " not those of Compressed; move that start() to a subclass of Compressed"
            )
        self.strategy = strategy
        self.dropped: list[Dropped] = []
        self.bytes_received: dict[int, int] = {}
        key = key or _attribute(strategy, "arrayrecord_key") or "arrays"
        weight = _attribute(strategy, "weighted_by_key")
        acceptance = Acceptance(limits, check_max_norm(max_norm), as_globs("optional", optional))
        self._checks = Checks(key, weight, _attribute(strategy, "train_loss_key"), acceptance)
        self._sent: dict[int, ArrayRecord] = {}
        self._evaluating: set[int] = set()
        self._counters: set[str] = set()
        self._signatures: dict[str, Signature | None] = {}

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Iterable[Message]:
        """Return the strategy's messages, and keep the arrays that each client gets."""
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        self._sent = {}
        for message in messages:
            record, node = message.content.array_records.get(self._checks.key), message.metadata.dst_node_id
            if record is None:
                raise ValueError(
                    f"{type(self.strategy).__name__} sends no ArrayRecord {self._checks.key!r}; its messages"
                    f" have {sorted(message.content)}. Pass another key to Compressed"
                )
            if self._sent.setdefault(node, record) is not record:
                raise ValueError(f"node {node} gets two models in one round, so its reply is ambiguous")
        if messages:
            self._counters |= {name for name, x in arrays.items() if not x.dtype.startswith("float")}
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Decode the replies, drop those that are not acceptable, and let the strategy aggregate the rest."""
        sent, self._sent = self._sent, {}
        replies = list(replies)
        self.bytes_received[server_round] = sum(map(_count_bytes, replies))
        models = {
            id(record): Model({name: x.numpy() for name, x in record.items()}, frozenset(self._counters))
            for record in sent.values()
        }

        def accept(reply: Message) -> None:
            arrays = self._checks.read(reply.content, models[id(sent[reply.metadata.src_node_id])])
            reply.content = RecordDict({**reply.content, self._checks.key: _as_record(arrays)})

        kept = self._keep_alike("train", server_round, self._judge(server_round, replies, sent, accept))
        result: tuple[Any, Any] = self.strategy.aggregate_train(server_round, kept)
        return result

    def _judge(
        self,
        server_round: int,
        replies: Iterable[Message],
        asked: Collection[int],
        accept: Callable[[Message], None],
    ) -> list[Message]:
        """Return the replies that are acceptable, one of each client; errors are the strategy's."""
        kept, answered = [], set()
        for reply in replies:
            node = reply.metadata.src_node_id
            try:
                if not reply.has_error():
                    if not reply.has_content():
                        raise Refused("record", "the reply has no content")
                    if node not in asked or node in answered:
                        text = "answered before" if node in answered else "was not asked"
                        raise Refused("node", f"this client {text} in this round")
                    accept(reply)
                    answered.add(node)
            except Refused as refused:
                self._drop(server_round, reply, refused)
            else:
                kept.append(reply)
        return kept

    def _keep_alike(self, phase: str, server_round: int, replies: list[Message]) -> list[Message]:
        """Return the replies with the usual records: one that differs would end the whole run."""
        signatures = {id(one): signature_of(one.content) for one in replies if not one.has_error()}
        usual = most_common(list(signatures.values()), self._signatures.get(phase))
        self._signatures[phase] = usual
        kept = []
        for reply in replies:
            if signatures.get(id(reply), usual) == usual:
                kept.append(reply)
            else:
                text = "its records or metrics have other names than those of most clients"
                self._drop(server_round, reply, Refused("record", text))
        return kept

    def _drop(self, server_round: int, reply: Message, refused: Refused) -> None:
        node = reply.metadata.src_node_id
        self.dropped.append(Dropped(server_round, node, refused.code, refused.message))
        _log.warning("%s", self.dropped[-1])

    def configure_evaluate(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Iterable[Message]:
        """Return the strategy's messages."""
        messages = list(self.strategy.configure_evaluate(server_round, arrays, config, grid))
        self._evaluating = {message.metadata.dst_node_id for message in messages}
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Drop replies that the strategy cannot aggregate, and return its metrics."""

        def accept(reply: Message) -> None:
            self._checks.check_metrics(reply.content, of_training=False)

        asked, self._evaluating = self._evaluating, set()
        kept = self._keep_alike("evaluate", server_round, self._judge(server_round, replies, asked, accept))
        return self.strategy.aggregate_evaluate(server_round, kept)

    def summary(self) -> None:
        """Log the key and the limits, and the strategy's summary."""
        _log.info("\t├──> Updates: %s", self._checks)
        self.strategy.summary()


def _count_bytes(reply: Message) -> int:
    """Return the bytes of all arrays in a reply."""
    if not reply.has_content():
        return 0
    return sum(len(x.data) for record in reply.content.array_records.values() for x in record.values())


def _attribute(strategy: Any, name: str) -> str | None:
    """Return an attribute of a strategy, or of the one that it wraps."""
    while strategy is not None:
        if isinstance(value := getattr(strategy, name, None), str):
            return value
        strategy = getattr(strategy, "strategy", None)
    return None
