"""wirecodec encodes sparse gradients as compact bytes and decodes them.

``encode`` and ``decode`` are pure functions between tensors and containers (formats/SPEC.md). A ``Scheme``
names the stages; ``codecs`` and ``selectors`` have their classes. A ``Compressor`` holds the state that
persists between steps. The package ``collectives`` moves the bytes between ranks.
"""

import warnings
from typing import TYPE_CHECKING, Any

from wirecodec import codecs, selectors
from wirecodec.comparison import Comparison, ComparisonTable, compare
from wirecodec.compilation import Warmth, warm
from wirecodec.compressor import Compressor, Prepared, rename_state
from wirecodec.container.inspect import ContainerInfo, inspect
from wirecodec.container.size_bound import max_encoded_bytes
from wirecodec.container.stream import Unit, blob_size, iter_blobs, iter_stream
from wirecodec.decode_into import decode_add
from wirecodec.errors import (
    ChecksumMismatch,
    DeviceError,
    EncodeError,
    Invalid,
    LimitExceeded,
    Malformed,
    SchemaMismatch,
    Truncated,
    Unsupported,
    WireError,
)
from wirecodec.files.opening import open
from wirecodec.index import IndexCodec
from wirecodec.limits import DecodeLimits
from wirecodec.patch import apply, diff, merge
from wirecodec.pipeline import decode, decode_many, encode, encode_many
from wirecodec.registry import register
from wirecodec.select import Selection, Selector
from wirecodec.settings import rules
from wirecodec.settings.feedback import ErrorFeedback, MomentumCorrection
from wirecodec.settings.presets import PRESETS, Preset, preset
from wirecodec.settings.recipes import RECIPES, Recipe, recipe
from wirecodec.settings.rules import Rule
from wirecodec.settings.schedule import Diminishing, Follow, Steps, WarmUp
from wirecodec.settings.scheme import Scheme
from wirecodec.sparse import SparseTensor
from wirecodec.value import ValueCodec
from wirecodec.version import __version__

__all__ = [
    "PRESETS",
    "RECIPES",
    "ChecksumMismatch",
    "Comparison",
    "ComparisonTable",
    "Compressor",
    "ContainerInfo",
    "DecodeLimits",
    "DeviceError",
    "Diminishing",
    "EncodeError",
    "ErrorFeedback",
    "Follow",
    "IndexCodec",
    "Invalid",
    "LimitExceeded",
    "Malformed",
    "MomentumCorrection",
    "Prepared",
    "Preset",
    "Recipe",
    "Rule",
    "SchemaMismatch",
    "Scheme",
    "Selection",
    "Selector",
    "SparseTensor",
    "Steps",
    "Truncated",
    "Unit",
    "Unsupported",
    "ValueCodec",
    "WarmUp",
    "Warmth",
    "WireError",
    "__version__",
    "apply",
    "blob_size",
    "codecs",
    "compare",
    "decode",
    "decode_add",
    "decode_many",
    "diff",
    "encode",
    "encode_many",
    "inspect",
    "iter_blobs",
    "iter_stream",
    "max_encoded_bytes",
    "merge",
    "open",
    "preset",
    "recipe",
    "register",
    "rename_state",
    "rules",
    "selectors",
    "warm",
]

_MOVED = {
    codecs: (
        "AutoIndex",
        "AutoValue",
        "Binned",
        "Bitmap",
        "Bloom",
        "ContextIndex",
        "DCT",
        "DExpFit",
        "Deflate",
        "Delta",
        "EliasFano",
        "ErrorBounded",
        "Huffman",
        "Mean",
        "OffsetFloat",
        "PolyFit",
        "QSGD",
        "RFFT",
        "RLE",
        "Raw",
        "RawIndex",
        "Rice",
        "SignScale",
        "SketchML",
        "Structured",
        "TernGrad",
        "ThreeLC",
        "Transform",
        "Zstd",
    ),
    selectors: (
        "AdaComp",
        "All",
        "Budget",
        "ChunkTopK",
        "DGC",
        "GaussianK",
        "NonZero",
        "RandomK",
        "RedSync",
        "SIDCo",
        "Threshold",
        "TopK",
    ),
}
"""Modules, and the names that moved there in 0.2.0; as names of this module they work until 0.3.0."""

if TYPE_CHECKING:  # the moved names keep their types
    from wirecodec.codecs import *  # noqa: F403
    from wirecodec.selectors import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """Return the object of a name that moved, with a DeprecationWarning at the caller's line."""
        for module, names in _MOVED.items():
            if name in names:
                warnings.warn(
                    f"wirecodec.{name} is {module.__name__}.{name} now; the old name goes with 0.3.0",
                    DeprecationWarning,
                    stacklevel=2,
                )
                return getattr(module, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, for completion in editors and notebooks."""
    return sorted(__all__)
