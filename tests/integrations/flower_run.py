"""Runs of Flower in this process, without Ray: messages and contexts pass through Flower's own bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import context_from_proto, context_to_proto
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

Arrays = Mapping[str, Any]
Train = Callable[[dict[str, Any], int], tuple[dict[str, Any], int]]


def start_task() -> None:
    """Give this process the identity that a ServerApp has."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1


def record_of(arrays: Arrays) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(x)) for name, x in arrays.items()})


def arrays_of(record: Any) -> dict[str, Any]:
    return {name: x.numpy() for name, x in record.items()}


def through_bytes(message: Message) -> Message:
    """Return the message that the other side gets."""
    contents = {key: x.deflate() for key, x in get_all_nested_objects(message).items()}
    copied: Message = inflate_object_from_contents(message.object_id, contents)
    copied.metadata.__dict__["_message_id"] = message.object_id
    return copied


class Client:
    """A node: its ClientApp, and its Context, which is stored as bytes between messages."""

    def __init__(self, node: int, train: Train, mods: Iterable[Any] = ()) -> None:
        self.node = node
        self.app = ClientApp(mods=list(mods))
        config = {"partition-id": node % 2**32}
        empty = Context(run_id=1, node_id=node, node_config=config, state=RecordDict(), run_config={})
        self._context = context_to_proto(empty).SerializeToString()
        self.bytes_sent = 0

        @self.app.train()  # type: ignore[untyped-decorator,unused-ignore]
        def run(message: Message, context: Context) -> Message:
            arrays, examples = train(arrays_of(message.content["arrays"]), node)
            metrics = MetricRecord({"num-examples": examples, "loss": 0.5})
            content = RecordDict({"arrays": record_of(arrays), "metrics": metrics})
            return Message(content, reply_to=message)

        @self.app.evaluate()  # type: ignore[untyped-decorator,unused-ignore]
        def evaluate(message: Message, context: Context) -> Message:
            content = RecordDict({"metrics": MetricRecord({"num-examples": 1, "loss": 0.25})})
            return Message(content, reply_to=message)

    @property
    def context(self) -> Context:
        return context_from_proto(type(context_to_proto(_EMPTY)).FromString(self._context))

    @context.setter
    def context(self, context: Context) -> None:
        self._context = context_to_proto(context).SerializeToString()

    def state(self, key: str = "arrays") -> dict[str, Any]:
        """Return the arrays that the mod keeps."""
        return arrays_of(self.context.state[f"wirecodec.{key}"])

    def answer(self, message: Message) -> Message:
        """Answer as a SuperNode: an exception becomes an error, and the context is stored in any case."""
        context = self.context
        try:
            reply = self.app(message, context)
        except Exception as error:
            reply = Message(Error(code=2, reason=f"{type(error)}:<'{error}'>"), reply_to=message)
        self.context = context
        if reply.has_content():
            self.bytes_sent += sum(
                len(x.data) for r in reply.content.array_records.values() for x in r.values()
            )
        return reply


_EMPTY = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})


class LocalGrid:
    """Grid of clients in this process. ``change`` may replace a client's reply."""

    def __init__(self, clients: Iterable[Client], change: Callable[[Message], Message] | None = None) -> None:
        self.clients = {client.node: client for client in clients}
        self.change = change or (lambda reply: reply)
        self.replies: list[Message] = []

    def get_node_ids(self) -> list[int]:
        return list(self.clients)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        replies = []
        for message in messages:
            sent = through_bytes(message)
            replies.append(through_bytes(self.change(self.clients[sent.metadata.dst_node_id].answer(sent))))
        self.replies += replies
        return replies
