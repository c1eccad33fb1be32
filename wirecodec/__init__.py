"""wirecodec encodes sparse gradients as compact bytes and decodes them.

``encode`` and ``decode`` are pure functions between tensors and containers (formats/SPEC.md). A ``Scheme``
names the codecs. A ``Compressor`` holds the state that persists between steps. The package ``collectives``
moves the bytes between ranks.
"""

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
from wirecodec.index import (
    RLE,
    AutoIndex,
    Binned,
    Bitmap,
    Bloom,
    ContextIndex,
    Delta,
    EliasFano,
    Huffman,
    IndexCodec,
    RawIndex,
    Rice,
    Structured,
)
from wirecodec.limits import DecodeLimits
from wirecodec.patch import apply, diff, merge
from wirecodec.pipeline import decode, decode_many, encode, encode_many
from wirecodec.registry import register
from wirecodec.select import (
    DGC,
    AdaComp,
    All,
    Budget,
    ChunkTopK,
    GaussianK,
    NonZero,
    RandomK,
    RedSync,
    Selection,
    Selector,
    SIDCo,
    Threshold,
    TopK,
)
from wirecodec.settings import rules
from wirecodec.settings.feedback import ErrorFeedback, MomentumCorrection
from wirecodec.settings.presets import PRESETS, Preset, preset
from wirecodec.settings.recipes import RECIPES, Recipe, recipe
from wirecodec.settings.rules import Rule
from wirecodec.settings.schedule import Diminishing, Follow, Steps, WarmUp
from wirecodec.settings.scheme import Scheme
from wirecodec.sparse import SparseTensor
from wirecodec.transform import DCT, RFFT, Transform
from wirecodec.value import (
    QSGD,
    AutoValue,
    Deflate,
    DExpFit,
    ErrorBounded,
    Mean,
    OffsetFloat,
    PolyFit,
    Raw,
    SignScale,
    SketchML,
    TernGrad,
    ThreeLC,
    ValueCodec,
    Zstd,
)
from wirecodec.version import __version__

__all__ = [
    "DCT",
    "DGC",
    "PRESETS",
    "QSGD",
    "RECIPES",
    "RFFT",
    "RLE",
    "AdaComp",
    "All",
    "AutoIndex",
    "AutoValue",
    "Binned",
    "Bitmap",
    "Bloom",
    "Budget",
    "ChecksumMismatch",
    "ChunkTopK",
    "Comparison",
    "ComparisonTable",
    "Compressor",
    "ContainerInfo",
    "ContextIndex",
    "DExpFit",
    "DecodeLimits",
    "Deflate",
    "Delta",
    "DeviceError",
    "Diminishing",
    "EliasFano",
    "EncodeError",
    "ErrorBounded",
    "ErrorFeedback",
    "Follow",
    "GaussianK",
    "Huffman",
    "IndexCodec",
    "Invalid",
    "LimitExceeded",
    "Malformed",
    "Mean",
    "MomentumCorrection",
    "NonZero",
    "OffsetFloat",
    "PolyFit",
    "Prepared",
    "Preset",
    "RandomK",
    "Raw",
    "RawIndex",
    "Recipe",
    "RedSync",
    "Rice",
    "Rule",
    "SIDCo",
    "SchemaMismatch",
    "Scheme",
    "Selection",
    "Selector",
    "SignScale",
    "SketchML",
    "SparseTensor",
    "Steps",
    "Structured",
    "TernGrad",
    "ThreeLC",
    "Threshold",
    "TopK",
    "Transform",
    "Truncated",
    "Unit",
    "Unsupported",
    "ValueCodec",
    "WarmUp",
    "Warmth",
    "WireError",
    "Zstd",
    "__version__",
    "apply",
    "blob_size",
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
    "preset",
    "recipe",
    "register",
    "rename_state",
    "rules",
    "warm",
]


def __dir__() -> list[str]:
    """List the public names, for completion in editors and notebooks."""
    return sorted(__all__)
