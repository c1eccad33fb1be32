"""Tests of the list of index codecs."""

from __future__ import annotations

import inspect

import wirecodec as wc
from wirecodec import index
from wirecodec.index.base import IndexChoice, IndexCodec


def test_the_list_holds_every_codec_of_the_package() -> None:
    """Check that every exported codec is listed, and that ``wirecodec.codecs`` re-exports it."""
    exported = {cls for name in index.__all__ if inspect.isclass(cls := getattr(index, name))}
    listed = {*index.CODECS, *index.CHOICES}
    assert exported - {IndexCodec, IndexChoice} == listed
    assert {cls.__name__ for cls in listed} <= set(wc.codecs.__all__)
