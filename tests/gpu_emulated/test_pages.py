"""The page of the codecs' costs says which codecs have no kernels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from wirecodec.gpu.index import GPU_INDEX_CODECS, find_index_decoder
from wirecodec.gpu.value import GPU_VALUE_CODECS, find_value_decoder
from wirecodec.registry import index_codecs, value_codecs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "benchmarks/results/codecs.md").read_text()
NAMES = set(re.findall(r"^### (\S+)$", PAGE, re.MULTILINE))
NAMES |= set(re.findall(r"`([\w-]+)`", PAGE.partition("no section for")[2].partition("\n\n")[0]))
WITHOUT = set(re.findall(r"`([\w-]+)`", PAGE.partition("No GPU kernel")[2].partition("\n\n")[0]))
"""Codecs that the page lists as those without a kernel."""
PAGES: list[tuple[str, Any]] = [("index", codec) for codec in index_codecs().values()]
PAGES += [("value", codec) for codec in value_codecs().values()]


@pytest.mark.parametrize(("kind", "codec"), PAGES, ids=lambda each: getattr(each, "name", each))
def test_pages(kind: str, codec: Any) -> None:
    name = str(codec.name).removesuffix("-float16").removesuffix("-bfloat16")
    records: Any = GPU_INDEX_CODECS if kind == "index" else GPU_VALUE_CODECS
    encodes = name == "raw" or codec in {record.codec for record in records}
    assert name in NAMES
    assert (name not in WITHOUT) == encodes
    find_decoder: Any = find_index_decoder if kind == "index" else find_value_decoder
    decodes = find_decoder(codec.wire_id) is not None
    assert name == "raw-index" or decodes == encodes
