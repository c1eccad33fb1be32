"""formats/container.ksy against the golden vectors.

The test interprets the constructs of Kaitai Struct that the file uses: sequences, ``type``, ``size``,
``contents``, ``if``, ``repeat``, ``switch-on``, one parameter and enums. The file also compiles with
kaitai-struct-compiler 0.11 (npm), whose JavaScript parser reads all valid vectors to their last byte; that
compiler is not a dependency of the tests.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Any

from formats.conformance import HERE
from tests.golden import vectors_of

SOURCE = (HERE / "container.ksy").read_text(encoding="utf-8")
INTEGER = {"u1": "B", "u2": "<H", "u4": "<I", "u8": "<Q"}
Yaml = dict[str, Any] | list[Any] | str


def parse_yaml(lines: list[str]) -> Yaml:
    """Parse the part of YAML that the file uses: nested mappings and lists, scalars, ``|`` texts, [a, b]."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    groups: list[list[str]] = []
    for line in lines:
        if len(line) - len(line.lstrip()) == indent:
            groups.append([])
        groups[-1].append(line)
    if lines[0].lstrip().startswith("- "):
        return [parse_yaml([group[0].replace("- ", "  ", 1), *group[1:]]) for group in groups]
    found: dict[str, Any] = {}
    for group in groups:
        key, _, value = group[0].strip().partition(": " if ": " in group[0] else ":")
        found[key.strip("'")] = parse_yaml(group[1:]) if not value and group[1:] else value
    return found


class Enumerated(str):
    """Name of a number."""

    number: int


class Parser:
    """Parser of one stream, as the file describes it."""

    def __init__(self, spec: dict[str, Any], data: bytes) -> None:
        self.spec, self.data, self.at = spec, data, 0
        self.root: dict[str, Any] = {}
        self.fields(spec["seq"], self.root, len(data))

    def evaluate(self, text: str, scope: dict[str, Any]) -> Any:
        """Evaluate an expression; a.b is a["b"], and a.to_i the number of an enumerated field."""
        names = {"_root": self.root, **scope}
        code = re.sub(r"(?<=[\w\]])\.(?!to_i)(\w+)", r'["\1"]', text).replace(".to_i", ".number")
        return eval(code, {"__builtins__": {}}, names)

    def fields(self, seq: list[dict[str, Any]], found: dict[str, Any], end: int) -> None:
        for field in seq:
            if "if" in field and not self.evaluate(field["if"], found):
                continue
            repeat = field.get("repeat")
            if repeat is None:
                found[field["id"]] = self.one(field, found, end)
                continue
            items: list[Any] = []
            found[field["id"]] = items
            while self.at < end if repeat == "eos" else len(items) < self.count(field, found):
                items.append(self.one(field, {**found, "_index": len(items)}, end))

    def count(self, field: dict[str, Any], found: dict[str, Any]) -> int:
        return int(self.evaluate(field["repeat-expr"], found))

    def take(self, size: int, end: int) -> bytes:
        assert 0 <= size <= end - self.at
        self.at += size
        return self.data[self.at - size : self.at]

    def name(self, enum: str, number: int) -> Enumerated:
        found = Enumerated(self.spec["enums"][enum].get(str(number), number))
        found.number = number
        return found

    def one(self, field: dict[str, Any], scope: dict[str, Any], end: int) -> Any:
        if "contents" in field:
            wanted = bytes(int(n, 16) for n in re.findall("0x[0-9a-f]+", field["contents"]))
            assert self.take(len(wanted), end) == wanted
            return wanted
        kind = field.get("type")
        if isinstance(kind, dict):
            cases = {int(key, 0): name for key, name in kind["cases"].items()}
            kind = cases.get(self.evaluate(kind["switch-on"], scope))
        if "size" in field:
            end = self.at + int(self.evaluate(field["size"], scope))
            if kind is None:
                return self.take(end - self.at, len(self.data))
        if kind in INTEGER:
            layout = INTEGER[kind]
            (number,) = struct.unpack(layout, self.take(struct.calcsize(layout), end))
            return self.name(field["enum"], number) if "enum" in field else number
        name, _, argument = str(kind).partition("(")
        found: dict[str, Any] = {}
        if argument:
            (parameter,) = self.spec["types"][name]["params"]
            found[parameter["id"]] = self.evaluate(argument.rstrip(")"), scope)
        self.fields(self.spec["types"][name]["seq"], found, end)
        if "size" in field:
            assert self.at == end
        return found


def test_container_ksy_reads_all_valid_vectors() -> None:
    lines = [line for line in SOURCE.splitlines() if line.strip()]
    spec = parse_yaml(lines)
    assert isinstance(spec, dict)
    for vector in vectors_of("ok"):
        parser = Parser(spec, vector.data)
        assert parser.at == len(vector.data), vector.id
        root = parser.root
        assert root["prefix"]["total_len"] == len(vector.data)
        sections = [
            payload[f"{name}_section"] for payload in root["payload"] for name in ("index", "value", "map")
        ]
        lengths = [entry[f"{name}_len"] for entry in root["entries"] for name in ("index", "value", "map")]
        assert [len(section) for section in sections] == lengths
        if "extension" in root:
            check_records(root["extension"], vector)
        assert not any(byte for payload in root["payload"] for byte in payload["value_padding"])


def check_records(block: dict[str, Any], vector: Any) -> None:
    """Compare the records with the decoded tensors."""
    assert block["ext_len"] == 8 + sum(8 + r["len"] + len(r["padding"]) for r in block["records"])
    bodies = {record["type"]: record["body"] for record in block["records"]}

    def rows_of(name: str) -> list[dict[str, Any]]:
        """Return the rows of a record; none if there is no such record, or if its flags make it unknown."""
        body = bodies.get(name, b"")
        return [] if isinstance(body, bytes) else body["rows"]

    if "names" in bodies:
        assert [name.decode() for name in bodies["names"]["names"]] == [t[0] for t in vector.tensors]
    for row in rows_of("shapes"):
        assert tuple(row["dimensions"]) == tuple(vector.tensors[row["key"]][2])
    sizes = [math.prod(t[2]) for t in vector.tensors]
    patches = {row["key"]: row["meaning"] for row in rows_of("semantics")}
    assert [patches.get(key, "zero") for key in range(len(sizes))] == vector.absent
    members: dict[int, list[int]] = {}
    for row in rows_of("joined"):
        assert row["size"] == sizes[row["key"]]
        members.setdefault(row["first"], []).append(row["size"])
    for row in rows_of("transform"):
        assert row["n"] == sum(members.get(row["key"], [sizes[row["key"]]]))
    for row in rows_of("types"):
        assert row["type"] == vector.tensors[row["key"]][1]
    for group in bodies.get("fused", {"groups": []})["groups"]:
        assert group["members"][0]["key"] == group["entry_key"]
    if "meta" in bodies:
        texts = [text.decode() for text in bodies["meta"]["texts"]]
        named = [
            vector.tensors[row["key"]][0] if row["key"] < 2**32 - 1 else None
            for row in bodies["meta"]["rows"]
        ]
        found = zip(named, texts[::2], texts[1::2], strict=True)
        wanted = [(name, *pair) for name, own in vector.meta["tensors"].items() for pair in own.items()]
        assert list(found) == wanted + [(None, *pair) for pair in vector.meta["container"].items()]
    if "tag" in bodies:
        assert bodies["tag"] == vector.tag
