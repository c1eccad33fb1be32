"""Tests of the writing rules that a test can check, and of the examples of public names."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("wirecodec", "collectives", "formats", "benchmarks", "docs")
PUBLIC = ("wirecodec", "wirecodec.codecs", "wirecodec.selectors", "collectives")

OPENERS = {
    "a",
    "all",
    "an",
    "any",
    "as",
    "at",
    "both",
    "by",
    "each",
    "every",
    "for",
    "from",
    "half",
    "how",
    "if",
    "in",
    "its",
    "likewise",
    "many",
    "more",
    "most",
    "no",
    "none",
    "not",
    "nothing",
    "of",
    "on",
    "one",
    "only",
    "or",
    "other",
    "out",
    "same",
    "several",
    "some",
    "something",
    "such",
    "that",
    "the",
    "their",
    "these",
    "they",
    "this",
    "those",
    "to",
    "two",
    "under",
    "what",
    "whatever",
    "when",
    "where",
    "whether",
    "which",
    "whose",
    "why",
    "with",
    "without",
}
"""Words that do not open the docstring of a function: it opens with a verb."""

BANNED = {
    "anew": "again",
    "besides": "also, in addition",
    "for to": "to",
    "lies": "is",
    "unawares": "by mistake",
    "nobody minds": "state the rule",
    "where it is none": "if it is not one",
    "where there is none": "if there is none",
    "whose it is": "name the owner",
    "as far as no": "name the limit",
    "in earnest": "in production",
    "befalls": "happens to",
    "vouches": "guarantees",
    "by turns": "alternating",
    "looked at by": "name the actor first",
}
"""Phrases that a reader has to read twice, and what to write instead."""

LITERAL = {"tests/test_prose.py"}
MAX_WORDS = 25
"""Words of a sentence in the pages of the standard."""


def sources(*folders: str) -> Iterator[Path]:
    """Yield the Python files of folders."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def pages() -> Iterator[Path]:
    """Yield the Markdown pages of the repository."""
    yield from sorted(ROOT.glob("*.md"))
    for folder in (*PACKAGES, "tests"):
        yield from sorted((ROOT / folder).rglob("*.md"))


def prose_of(path: Path) -> str:
    """Return a page's text, or a module's docstrings and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    found = re.findall(r"#\s(.*)$", text, re.MULTILINE)
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            found.append(node.value.value)
    return "\n".join(found)


def sentences_of(page: str) -> Iterator[str]:
    """Yield the sentences of a Markdown page, without code blocks and headings.

    In cells of tables and in items of lists, a semicolon ends a sentence, too.
    """
    block: list[str] = []
    listed = False
    for line in [*re.sub(r"```.*?```", "", page, flags=re.DOTALL).splitlines(), ""]:
        text = line.strip()
        item = re.match(r"(?:-|\d+\.) ", text)
        if item or not text or text.startswith(("|", "#")) or line.startswith("    "):
            yield from re.split(r"(?<=[.!?;])\W*\s" if listed else r"(?<=[.!?])\W*\s", " ".join(block))
            block, listed = [], item is not None
        if text.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", text):
                yield from re.split(r"(?<=[.!?;])\s", cell)
        elif not (text.startswith("#") or line.startswith("    ")):
            block.append(text)


def count_words(sentence: str) -> int:
    """Count the words of a sentence; code is one word, and numbers and formulas are none."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", sentence))
    return sum(bool(re.search("[A-Za-z]", word)) for word in plain.split())


def functions_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of each function of a module that has one; properties are nouns."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef):
            continue
        decorators = {ast.unparse(each).split("(")[0] for each in node.decorator_list}
        doc = ast.get_docstring(node)
        if doc and not decorators & {"property", "functools.cached_property", "cached_property"}:
            yield node.name, doc


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_of_functions_open_with_a_verb(package: str) -> None:
    wrong = []
    for path in sources(package):
        for name, doc in functions_of(path):
            opening = re.match(r"[A-Za-z']+", doc)
            word = opening[0].lower() if opening else ""
            if (
                not word
                or word in OPENERS
                or (word.endswith(("ed", "ing")) and word not in {"embed", "feed", "need"})
            ):
                wrong.append(f"{path.relative_to(ROOT)}: {name}: {doc.splitlines()[0]}")
    assert not wrong, "\n".join(wrong)


def test_no_banned_phrases() -> None:
    wrong = []
    for path in (*sources(*PACKAGES, "tests"), *pages()):
        if str(path.relative_to(ROOT)) in LITERAL:
            continue
        text = prose_of(path)
        for phrase, better in BANNED.items():
            for match in re.finditer(rf"\b{phrase}\b", text, re.IGNORECASE):
                around = text[max(match.start() - 40, 0) : match.end() + 30].replace("\n", " ")
                wrong.append(f"{path.relative_to(ROOT)}: {phrase!r} (write {better!r}): …{around}…")
    assert not wrong, "\n".join(wrong)


def test_sentences_of_the_standard_are_short() -> None:
    assert [count_words(s) for s in sentences_of("One `a b` [two words](x.md) 3. Next; still\n- a; b\n")] == [
        4,
        2,
        1,
        1,
    ]
    wrong = [
        f"{path.relative_to(ROOT)}: {count_words(sentence)} words: {sentence}"
        for path in sorted((ROOT / "formats").rglob("*.md"))
        for sentence in sentences_of(path.read_text(encoding="utf-8"))
        if count_words(sentence) > MAX_WORDS
    ]
    assert not wrong, "\n".join(wrong)


def public_names() -> list[tuple[str, str, Any]]:
    """Return every public class and function, with its package."""
    found = []
    for package in PUBLIC:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found.append((package, name, value))
    return found


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize(
    ("package", "name", "value"), public_names(), ids=lambda x: x if isinstance(x, str) else ""
)
def test_public_names_have_examples_that_run(package: str, name: str, value: Any) -> None:
    doc = inspect.getdoc(value) or ""
    exempt = inspect.isclass(value) and (
        issubclass(value, BaseException) or getattr(value, "_is_protocol", False)
    )
    tests = doctest.DocTestFinder(recurse=False).find(value, name, globs={})
    examples = [test for test in tests if test.examples]
    assert exempt or examples, f"{package}.{name} has no example"
    if inspect.isfunction(value) and inspect.signature(value).parameters:
        assert "Args:" in doc, f"{package}.{name} does not list its arguments"
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for test in examples:
        failures, _ = doctest.DocTestRunner(optionflags=flags).run(test)
        assert not failures
