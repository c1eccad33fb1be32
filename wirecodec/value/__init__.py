"""Value codecs: the values of the selected elements as bytes.

One file per codec; ``base`` defines the protocols.
"""

from wirecodec.value.auto import AutoValue
from wirecodec.value.base import OrderedValueCodec, ValueChoice, ValueCodec
from wirecodec.value.deflate import Deflate
from wirecodec.value.dexpfit import DExpFit
from wirecodec.value.error_bounded import ErrorBounded
from wirecodec.value.mean import Mean
from wirecodec.value.offset_float import OffsetFloat
from wirecodec.value.polyfit import PolyFit
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw, RawBfloat16, RawFloat16
from wirecodec.value.sign_scale import SignScale
from wirecodec.value.sketchml import SketchML
from wirecodec.value.terngrad import TernGrad
from wirecodec.value.three_lc import ThreeLC
from wirecodec.value.zstd import Zstd

__all__ = [
    "CHOICES",
    "CODECS",
    "QSGD",
    "TYPED_RAW",
    "AutoValue",
    "DExpFit",
    "Deflate",
    "ErrorBounded",
    "Mean",
    "OffsetFloat",
    "OrderedValueCodec",
    "PolyFit",
    "Raw",
    "SignScale",
    "SketchML",
    "TernGrad",
    "ThreeLC",
    "ValueChoice",
    "ValueCodec",
    "Zstd",
]

CODECS: tuple[type[ValueCodec], ...] = (
    *(Raw, QSGD, SignScale, Deflate, Zstd, OffsetFloat, PolyFit, DExpFit),
    *(TernGrad, ThreeLC, SketchML, ErrorBounded, Mean),
)
"""Every codec that a scheme can name, in the order of its wire id."""
TYPED_RAW: tuple[type[ValueCodec], ...] = (RawFloat16, RawBfloat16)
"""Wire codecs that ``Raw`` chooses; schemes name them by its ``dtype``."""
CHOICES: tuple[type[ValueChoice], ...] = (AutoValue,)
"""Names that choose a codec for each chunk."""
