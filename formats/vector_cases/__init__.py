"""The golden vectors as code: bad_*.py build invalid containers, the other modules valid ones.

The reference writer makes every case, and the reference decoder checks it when it is built. A case that does
not have the stated result stops make_vectors.py. All cases are deterministic.
"""

from types import ModuleType

from formats.vector_cases import (
    bad_container,
    bad_extension,
    bad_index_codecs,
    bad_reader,
    bad_table,
    bad_transforms,
    bad_value_codecs,
    binned,
    bloom,
    containers,
    context,
    curves,
    deflate,
    elias_fano,
    error_bounded,
    huffman,
    index_codecs,
    maps,
    mean,
    offset_float,
    rle_delta,
    sign_scale,
    sketchml,
    structured,
    terngrad,
    three_lc,
    transformed_values,
    transforms,
    value_codecs,
    zstd,
)

MODULES: tuple[ModuleType, ...] = (
    containers,
    index_codecs,
    value_codecs,
    mean,
    sign_scale,
    offset_float,
    three_lc,
    sketchml,
    bad_container,
    bad_table,
    bad_reader,
    bad_extension,
    bad_index_codecs,
    bad_value_codecs,
    bloom,
    binned,
    elias_fano,
    huffman,
    rle_delta,
    structured,
    context,
    deflate,
    zstd,
    terngrad,
    maps,
    curves,
    error_bounded,
    transforms,
    transformed_values,
    bad_transforms,
)
"""The modules of cases; each has a function ``cases``."""
