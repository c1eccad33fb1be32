"""What the golden vectors are, as code: bad_*.py build broken containers, the others valid ones.

Every case is made by the reference writer and judged by the reference decoder when it is built, so a case
that does not show what it says it shows stops make_vectors.py. All of it is deterministic.
"""

from types import ModuleType

from formats.cases import (
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
    elias_fano,
    huffman,
    index_codecs,
    rle_delta,
    sign_scale,
    structured,
    transforms,
    value_codecs,
)

MODULES: tuple[ModuleType, ...] = (
    containers,
    index_codecs,
    value_codecs,
    sign_scale,
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
    transforms,
    bad_transforms,
)
"""The modules of cases, each with its function ``cases``."""
