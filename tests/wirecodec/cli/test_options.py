"""Schemes as options."""

from __future__ import annotations

import pytest

import wirecodec as wc
from wirecodec.cli.options import parse_scheme


def test_presets_are_schemes_by_name() -> None:
    assert parse_scheme("dgc") == wc.preset("dgc")
    assert parse_scheme("dgc(ratio=0.02, index=rice)") == wc.preset("dgc", ratio=0.02, index="rice")
    assert str(parse_scheme("all | raw-index | raw")) == "all | raw-index | raw"
    with pytest.raises(wc.EncodeError, match="'dcg' is neither a preset nor a scheme"):
        parse_scheme("dcg")
