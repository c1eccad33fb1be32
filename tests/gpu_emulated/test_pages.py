"""A codec's page says that there are no kernels for it, where there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wirecodec.gpu import chunk, decode
from wirecodec.registry import index_codecs, value_codecs

ROOT = Path(__file__).parents[2] / "formats" / "spec"
SENTENCE = "There is no GPU kernel for this codec"
PAGES: list[tuple[str, Any]] = [("index", codec) for codec in index_codecs().values()]
PAGES += [("value", codec) for codec in value_codecs().values()]


@pytest.mark.parametrize(("kind", "codec"), PAGES, ids=lambda each: getattr(each, "name", each))
def test_pages(kind: str, codec: Any) -> None:
    name = str(codec.name).removesuffix("-float16").removesuffix("-bfloat16")
    coded = name == "raw" or codec in (chunk._INDEX if kind == "index" else chunk._VALUE)
    page = (ROOT / kind / f"{name}.md").read_text()
    assert (SENTENCE not in page) == coded
    read = decode._INDEX if kind == "index" else decode._VALUE
    wire_id = codec.wire_id
    assert name == "raw-index" or (wire_id in read) == coded
