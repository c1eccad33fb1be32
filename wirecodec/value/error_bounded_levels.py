"""Initial levels of error-bounded (formats/spec/value/error-bounded.md), one row per context.

Each level is two hexadecimal digits: the escape's, then the bins'. Absent bins are left out. The levels were
counted on real gradients and on Laplace, Gaussian and Student values.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from wirecodec.arrays import Array, read_only
from wirecodec.kernels.layout import BOUNDED_ROWS

OFFSET = (
    "ff0179ceeffefefffffffefffefffffffffffefffffffefefffffffffffe",
    "ff0156afc8ededffffdd",
    "ff0151a0caedfdfd",
    "ff014e99c6d7effffefefffffffffffe",
    "ff014b8cb4d1dcfde2feed",
    "ff024788adbfdef6f0fffe",
    "ff024582a8b3d2fefeeef4fefffe",
    "ff02407ea2b7cffae1eafefefefffefffffe",
    "ff033b789fbec8dff7dfeef1fffffffe",
    "f903356f9cb2ced0ddcffef6fefe",
    "ff042f6793aabbd4d3d7fef9fefefefffffe",
    "ff06295b819eafc5cdd3d8e1fff5fefefffe",
    "fe08234e718da2b8c1c0cfdbefecfef9fefefffefefffe",
    "ff0a1f43658095a8b6b6cddae4d3fefefefefefffefffffffffe",
    "ff0d1e36536e8699a9aebecfd9d5f4f8fefefefefefe",
    "fe111e2e445b71829193a7bbc3cbcadefeeefefefefffffefefffe",
    "fe15202b38495d6e7e8195abb6b8c5d4e1dce8fefefefefffefefffffffffefe",
    "ff1b2229313c4e5c696b8295a8adc3d4e4eaf5fefefefefe",
    "fe20262c3137404a5453677b8b8da4b8cbc9d5e1e8fbfefefefefefefffe",
    "fe272b2f33373c41473f53637173879aa9abc0c6d6dbebf4fefafefefffefefe",
    "fe2c303336393c404339444f595a6f839395aebecac8d6e5fef8fefefefefefe",
    "fe3437393b3d3f4144373c424843576877788ca0afafc3cdd4d9f1f6fefefe",
    "fe3a3c3e4042434546383c3f433a47535f5f7487989bb3bfcecddceffef9fefefe",
    "f24143454647494a4c3d3f4144383d444b46576778788c9eb0adc0c3d2deebf3fb",
)
"""Rows 0 to 23 of form 1."""

CENTRED = (
    "ff019ae8f5fefefefefefefefefefefefefefffefefe",
    "ff015a",
    "ff0160",
    "ff0155",
    "ff014effe1",
    "ff014dca",
    "ff0248c3",
    "ff023ec6ffe4",
    "ff0338a3d0bed5ddddf3",
    "ff0430a3dbfffffffffffffffff1",
    "ff05298cd5d8ecfff2daf2fffe",
    "ff072276bbdbd3eefff5f5fffe",
    "ff091c63a0d0ddf1effefefefefffefffffffff6",
    "ff0d165082afc8e0eee7fefefefdfefffffe",
    "ff14113e628aa3b6c7cde8f1fefefefefefefffffffffffe",
    "ff1f0c37547c9cb3c6cbe3f4fefefefefefefefefefffffffffffe",
    "ff1f14253b5a758ba1aac2d1e5ebfafefefefefffefefffffffffefe",
    "ff241c242f3d4d5d747f9aafc2c4ddeafbfefefefffefefe",
    "ff2a22272d343e4a5b647f95abb2c9d8e9f4fefefefefefefefefffffffffe",
    "ff32292c2f34393f464252637c839eb2c5c5dfeef7fbfefefffefffe",
    "ff382f313436393c4036414e636d8aa4bac4def4fefefefefffffefe",
    "fe4138383a3b3d3e403439404947596b7c839fb2bcc4deeefefefefefffefe",
    "fe483f404142434445373a3e4138414c58608199acb4cce1f1f1fefefefefe",
    "fe504546474848494a3b3d3f41343a414a4a6275868faabdc7cfeaf6fefefefe",
)
"""Rows 0 to 23 of form 2."""

SHIFTED = (
    "fe3e3e3f4041434445373b3e423944515e648095a5a9bed0dcd8ebf9fefefefefe",
    "fe454446474848494a3b3d3f41353b424b4a63798c93acbdcacce2effef6fefefe",
)
"""Rows 24 and 25 of both forms."""


@cache
def default_levels(form: int) -> Array:
    """Return (26, 33) u8 levels of a form: the bins', then the escape's; 255 marks an absent bin."""
    levels = np.full((BOUNDED_ROWS, 33), 255, np.uint8)
    for row, digits in enumerate((OFFSET if form == 1 else CENTRED) + SHIFTED):
        escape, *bins = bytes.fromhex(digits)
        levels[row, : len(bins)] = bins
        levels[row, -1] = escape
    return read_only(levels)
