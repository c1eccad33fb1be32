"""Value codecs: the values of the chosen elements as bytes.

One file a codec; ``base`` says what one must offer.
"""

from wirecodec.value.base import OrderedValueCodec, ValueChoice, ValueCodec
from wirecodec.value.dexpfit import DExpFit
from wirecodec.value.polyfit import PolyFit
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw
from wirecodec.value.sign_scale import SignScale

__all__ = ["QSGD", "DExpFit", "OrderedValueCodec", "PolyFit", "Raw", "SignScale", "ValueChoice", "ValueCodec"]
