"""Value codecs: the values of the chosen elements as bytes.

One file a codec; ``base`` says what one must offer.
"""

from wirecodec.value.base import ValueChoice, ValueCodec
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw
from wirecodec.value.sign_scale import SignScale
from wirecodec.value.sketchml import SketchML
from wirecodec.value.three_lc import ThreeLC

__all__ = ["QSGD", "Raw", "SignScale", "SketchML", "ThreeLC", "ValueChoice", "ValueCodec"]
