"""The page of scheme strings (formats/spec/scheme.md) against the registry, the parser and the vectors.

The page's hash travels in the agreement header, so it is wire format: a new parameter of a codec or selector
needs a row on the page, and a changed default is a change of the format.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

import wirecodec as wc
from formats import conformance
from tests.golden import vectors
from wirecodec import registry

PAGE = (Path(conformance.__file__).parent / "spec" / "scheme.md").read_text(encoding="utf-8")
STAGES = {
    "Transforms": "transform",
    "Selectors": "selector",
    "Index codecs": "index codec",
    "Value codecs": "value codec",
}
TYPES = {"float": "real", "int": "integer", "str": "word", "bool": "truth"}
Row = tuple[str, str, bool, str, str]


def documented(title: str) -> list[Row]:
    """Return the rows (name, parameter, positional, type, default) of a stage's table."""
    table = PAGE.split(f"\n### {title}\n")[1].split("\n#")[0]
    rows = []
    for line in table.splitlines():
        if line.startswith("| `"):
            name, parameter, type_, default, _ = (cell.strip() for cell in line.strip("|").split("|"))
            field, _, mark = parameter.partition(", ")
            assert mark in ("", "positional"), line
            rows.append((name.strip("`"), field.strip("`"), bool(mark), type_, default.strip("`")))
    return rows


def registered(stage: str) -> list[Row]:
    """Return the same of the registry's classes, except user-defined ones."""
    rows = []
    for name, cls in registry.stages()[stage].items():
        if not cls.__module__.startswith("wirecodec."):
            continue
        fields = dataclasses.fields(cls)
        if not fields:
            rows.append((name, "", False, "", ""))
        for at, field in enumerate(fields):
            needed = field.default is dataclasses.MISSING
            bare = at == 0 and (needed or field.default is None)
            type_ = TYPES[str(field.type).split(" | ")[0]]
            rows.append((name, field.name, bare, type_, "required" if needed else str(field.default)))
    return rows


@pytest.mark.parametrize("title", STAGES)
def test_tables_are_those_of_the_registry(title: str) -> None:
    assert documented(title) == registered(STAGES[title])


def translate(abnf: str) -> dict[str, str]:
    """Translate the page's ABNF, which is not recursive, into regular expressions by rule."""
    rules = {"WSP": "[ \t]", "DIGIT": "[0-9]"}
    source = {}
    for line in abnf.strip().splitlines():
        name, _, body = line.partition(";")[0].partition(" = ")
        source[name.strip()] = body.strip()

    def rule(name: str) -> str:
        if name not in rules:
            rules[name] = f"(?:{expression(source[name])})"
        return rules[name]

    def expression(body: str) -> str:
        tokens = re.findall(r'%s"[^"]*"|"[^"]*"|%x[0-9A-F]+-[0-9A-F]+|[0-9]*\*|[A-Za-z-]+|[\[\]()/]', body)
        out, repeat = "", ""
        closings: list[str] = []
        for token in tokens:
            if token.endswith("*"):
                repeat = "+" if token == "1*" else "*"
                continue
            if token in "([":
                out += "(?:"
                closings.append(repeat if token == "(" else "?")
                repeat = ""
                continue
            if token in ")]":
                out += f"){closings.pop()}"
                continue
            if token == "/":
                out += "|"
                continue
            if token.startswith("%x"):
                low, high = (chr(int(n, 16)) for n in token[2:].split("-"))
                part = f"[{low}-{high}]"
            elif '"' in token:
                part = re.escape(token.split('"')[1])
            else:
                part = rule(token)
            out, repeat = out + (f"(?:{part}){repeat}" if repeat else part), ""
        return out

    for name in source:
        rule(name)
    return rules


GRAMMAR = translate(PAGE.split("```abnf\n")[1].split("```")[0])


def is_scheme(text: str) -> bool:
    return re.fullmatch(GRAMMAR["scheme"], text) is not None


def examples() -> list[str]:
    """Return canonical strings of every codec and selector, with one parameter away from its default."""
    given: dict[str, Any] = {"topk": {"ratio": 0.01}, "threshold": {"t": 1e-20}, "sidco": {"ratio": 1e-3}}
    given |= {"chunk-topk": {"ratio": 0.25, "chunk": 8}, "budget": {"bits": 0.5}}
    given |= {name: {"ratio": 1.0} for name in ("randomk", "dgc", "redsync", "gaussiank")}
    other: dict[str, list[Any]] = {"word": ["keys", "p2", "l2", "runs", "float16", "stochastic", "gp"]}
    other |= {"integer": [7, 64, 2], "real": [0.5, 1e-7, 1.5, -2.0], "truth": [True, False]}
    found = []
    for at, (title, stage) in enumerate(STAGES.items()):
        for name, field, _, type_, _ in documented(title):
            cls, base = registry.named(stage, name), given.get(name, {})
            for value in [None, *other.get(type_, [])] if field else [None]:
                try:
                    part = cls(**(base if value is None else {**base, field: value}))
                except wc.EncodeError:
                    continue
                stages: list[Any] = [None, wc.selectors.TopK(0.01), wc.codecs.Rice(), wc.codecs.Raw()]
                stages[at] = part
                transform, select, index, coded = stages
                found.append(str(wc.Scheme(select, index, coded, transform)))
    return found


def test_canonical_strings_follow_the_grammar() -> None:
    strings = examples()
    assert len(strings) > 80
    for text in strings:
        assert is_scheme(text), text
        assert str(wc.Scheme.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["topk(0.01)", "topk(0.01) | rice", "a|b|c|d|e", "Topk|rice|raw", "a|b()c|d"]
)
def test_other_texts_do_not(text: str) -> None:
    assert not is_scheme(text)
    with pytest.raises(wc.EncodeError):
        wc.Scheme.parse(text)


def test_schemes_of_vectors_follow_the_grammar() -> None:
    schemes = {v.encode.scheme for v in vectors() if v.encode}
    assert [text for text in schemes if not is_scheme(text)] == []
    for text in schemes:
        wc.Scheme.parse(text)


def test_examples_of_the_page() -> None:
    hashes = re.findall(r"^    0x([0-9a-f]{16})  (.+)$", PAGE, re.MULTILINE)
    assert len(hashes) == 4
    for digits, text in hashes:
        assert str(wc.Scheme.parse(text)) == text
        assert hashlib.sha256(text.encode()).digest()[:8] == bytes.fromhex(digits)[::-1]
    (loose, canonical) = re.findall(r"^For example, `(.+)` has the canonical string `(.+)`\.$", PAGE, re.M)[0]
    assert is_scheme(loose)
    assert str(wc.Scheme.parse(loose)) == canonical
    for text in re.findall(r"^    ((?:topk|dct).+)$", PAGE, re.MULTILINE):
        assert is_scheme(text)
        assert str(wc.Scheme.parse(text)) == text
    for text in ("0.01", "1.0", "-0.0", "1e-05", "2.5e+16"):
        assert f"`{text}`" in PAGE
        assert repr(float(text)) == text
