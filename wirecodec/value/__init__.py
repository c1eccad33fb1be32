"""Value codecs: the values of the chosen elements as bytes.

One file a codec; ``base`` says what one must offer.
"""

from wirecodec.value.auto import AutoValue
from wirecodec.value.base import ValueChoice, ValueCodec
from wirecodec.value.error_bounded import ErrorBounded
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw
from wirecodec.value.sign_scale import SignScale

__all__ = ["QSGD", "AutoValue", "ErrorBounded", "Raw", "SignScale", "ValueChoice", "ValueCodec"]
