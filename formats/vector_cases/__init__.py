"""What the golden vectors are, as code: bad_*.py build broken containers, the others valid ones.

Every case is made by the reference writer and judged by the reference decoder when it is built, so a case
that does not show what it says it shows stops make_vectors.py. All of it is deterministic.
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
    mean,
    offset_float,
    rle_delta,
    sign_scale,
    sketchml,
    structured,
    terngrad,
    three_lc,
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
    curves,
    error_bounded,
    transforms,
    bad_transforms,
)
"""The modules of cases, each with its function ``cases``."""
