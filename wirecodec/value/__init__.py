"""Value codecs: the values of the chosen elements as bytes.

One file a codec; ``base`` says what one must offer.
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
from wirecodec.value.raw import Raw
from wirecodec.value.sign_scale import SignScale
from wirecodec.value.sketchml import SketchML
from wirecodec.value.terngrad import TernGrad
from wirecodec.value.three_lc import ThreeLC
from wirecodec.value.zstd import Zstd

__all__ = [
    "QSGD",
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
