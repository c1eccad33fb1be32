"""Tests of the guide to federated clients: attacks on its HTTP server."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc

GUIDE = Path(__file__).parents[1] / "docs/guides/federated.md"
SHAPES = {"kernel": (64, 8), "bias": (8,)}


def body_of(value: float) -> bytes:
    blob: bytes = wc.encode_many(
        {name: np.full(shape, value, "f4") for name, shape in SHAPES.items()}
    ).tobytes()
    return blob


@pytest.fixture
def server() -> Iterator[Any]:
    """The guide's server, with a timeout of half a second."""
    code = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[
        0
    ]
    names: dict[str, Any] = {"__name__": "document"}
    exec(compile(code, str(GUIDE), "exec", dont_inherit=True), names)
    names["Handler"].timeout = 0.5
    running = names["server"]
    yield running
    running.shutdown()
    running.server_close()


def connect(server: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=20)


def request(body: bytes = b"", **changes: str | None) -> bytes:
    """Return the bytes of a POST; a header of None is left out."""
    headers = {
        "Client": "a",
        "Content_Length": str(len(body)),
        "Model_Version": "0",
        "Examples": "1",
        **changes,
    }
    lines = [f"{name.replace('_', '-')}: {x}" for name, x in headers.items() if x is not None]
    return "\r\n".join(["POST /update HTTP/1.0", *lines, "", ""]).encode() + body


def answer_to(server: Any, data: bytes) -> tuple[int, str]:
    """Send bytes; return the status and the body of the answer."""
    with connect(server) as connection:
        connection.sendall(data)
        return read_answer(connection)


def read_answer(connection: socket.socket) -> tuple[int, str]:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode(errors="replace")


def assert_untouched(server: Any) -> None:
    assert server.version == 0
    assert server.examples == {}
    assert not any(x.any() for x in (*server.sums.values(), *server.model.values()))


@pytest.mark.parametrize("length", ["", "abc", "-5", "+5", "1_0", "1e3", "0x10", "²", "9" * 30, None])
def test_a_bad_content_length_gets_400(server: Any, length: str | None) -> None:
    data = request(body_of(1.0), Content_Length=length)
    assert answer_to(server, data) == (400, "Content-Length is not a number")
    assert_untouched(server)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"Model_Version": "1"}, 409),
        ({"Model_Version": "-1"}, 400),
        ({"Model_Version": None}, 400),
        ({"Examples": "0"}, 400),
        ({"Examples": "-3"}, 400),
        ({"Examples": "nan"}, 400),
        ({"Examples": "100001"}, 400),
        ({"Examples": None}, 400),
        ({"Content_Length": "16385"}, 413),
    ],
)
def test_bad_headers(server: Any, changes: dict[str, str | None], status: int) -> None:
    assert answer_to(server, request(body_of(1.0), **changes))[0] == status
    assert_untouched(server)


@pytest.mark.parametrize(
    "body", [b"", b"x", bytes(5000), np.random.default_rng(0).bytes(3000), body_of(np.inf)]
)
def test_garbage_gets_400(server: Any, body: bytes) -> None:
    status, text = answer_to(server, request(body))
    assert status == 400
    assert text
    assert_untouched(server)


def test_a_slow_client_stops_nobody(server: Any) -> None:
    """Some clients send a part of a header or of a body, or a byte now and then; others are answered."""
    data = request(body_of(1.0))
    slow = [connect(server) for _ in range(8)]
    for number, connection in enumerate(slow):
        connection.sendall(data[: [5, 40, len(data) - 3, len(data) - 300][number % 4]])
    trickling = connect(server)
    trickling.sendall(data[:-20])
    stop = threading.Event()

    def trickle() -> None:
        for byte in data[-20:-5]:
            if stop.wait(0.2):
                return
            try:
                trickling.sendall(bytes([byte]))
            except OSError:
                return

    thread = threading.Thread(target=trickle)
    thread.start()
    start = time.monotonic()
    assert answer_to(server, request(body_of(1.0), Client="b"))[0] == 200
    assert time.monotonic() - start < 5
    assert read_answer(trickling) == (408, "too slow")
    stop.set()
    thread.join()
    for number in (2, 3, 6, 7):  # those that have sent all headers
        with slow[number] as connection:
            assert b"408" in connection.recv(100) or connection.recv(100) == b""
    assert server.examples == {"b": 1}
    for connection in (*slow, trickling):
        connection.close()


def test_a_round_takes_the_weighted_mean(server: Any) -> None:
    assert answer_to(server, request(body_of(1.0), Client="a", Examples="10"))[0] == 200
    assert answer_to(server, request(body_of(9.0), Client="a", Examples="10"))[0] == 409  # twice
    assert answer_to(server, request(body_of(3.0), Client="b", Examples="30"))[0] == 200
    assert server.version == 1
    assert all(np.all(x == 2.5) for x in server.model.values())
    assert answer_to(server, request(body_of(1.0), Client="a"))[0] == 409  # of the version before
    assert answer_to(server, request(body_of(1.0), Client="a", Model_Version="1"))[0] == 200
