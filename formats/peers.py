"""Run any peer over the vectors of rounds, headers and scheme strings (contract: vectors/README.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formats.conformance import DEFAULT_DIR, Failure

ROUNDS, AGREEMENT, SCHEME = PEERS = "rounds", "agreement", "scheme"
"""Folders of the vectors."""
LEFT_OUT = ("about", "rules")
"""Fields that a peer need not be given; the rules are in the settings among the objects."""
ANSWERS = {
    ROUNDS: (
        *("slots", "verdicts", "decision", "members", "result", "begins"),
        *("states", "texts", "first", "next"),
    ),
    AGREEMENT: ("decision", "field", "ranks", "next"),
    SCHEME: (),
}
"""Fields of a vector that a peer answers."""
ROWS = {
    "headers": ("signed", "fields"),
    "weights": ("factors", "divisor"),
    "sums": ("result",),
    "strings": ("text", "hash"),
}
"""Fields with rows, and what a peer answers of each row."""

Answer = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""Peer: given the folder of a vector and its fields without the answers, it returns the answers."""


@dataclass(frozen=True)
class Question:
    """One file of a folder: what a peer is given, and what it answers."""

    id: str
    folder: str
    given: dict[str, Any]
    wanted: dict[str, Any]


def load_questions(folder: str, vectors: Path = DEFAULT_DIR) -> Iterator[Question]:
    """Load the vectors of a folder in the order of their file names."""
    for path in sorted((vectors / folder).glob("*.json")):
        fields = json.loads(path.read_text(encoding="utf-8"))
        given, wanted = dict[str, Any](), dict[str, Any]()
        for name, value in fields.items():
            if name in ROWS:
                own = ROWS[name]
                wanted[name] = [{key: row[key] for key in own} for row in value]
                given[name] = [{key: x for key, x in row.items() if key not in own} for row in value]
            elif name not in LEFT_OUT:
                (wanted if name in ANSWERS[folder] else given)[name] = value
        yield Question(fields["id"], folder, given, wanted)


def check_answers(answer: Answer, question: Question) -> str | None:
    """Ask a peer one question; return a description of its failure, or None."""
    try:
        found = answer(question.folder, question.given)
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"
    names = [*question.wanted, *(name for name in found if name not in question.wanted)]
    for name in names:
        if json.dumps(found.get(name), sort_keys=True) != json.dumps(
            question.wanted.get(name), sort_keys=True
        ):
            return f"{name} is {found.get(name)}, not {question.wanted.get(name)}"
    return None


def run_questions(answer: Answer, folder: str, vectors: Path = DEFAULT_DIR) -> list[Failure]:
    """Ask a peer all questions of a folder; return its failures."""
    found = ((one.id, check_answers(answer, one)) for one in load_questions(folder, vectors))
    return [Failure(id, message) for id, message in found if message is not None]


def reference(folder: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Answer as the peer of vector_cases/peers; a model for other adapters."""
    from formats.vector_cases.peers import answers

    known = {
        ROUNDS: answers.answer_rounds,
        AGREEMENT: answers.answer_agreement,
        SCHEME: answers.answer_scheme,
    }
    return known[folder](given)
