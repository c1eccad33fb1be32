"""Writers' arithmetic in binary32: inputs for which a step in binary64 gives other bytes.

In random values such a difference occurs once in a million. Here each value is next to a border between two
levels, computed from its draw.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import OffsetFloat, Qsgd, Tensor, TernGrad, ThreeLC
from formats.reference.floats import round_to_float32
from formats.reference.prng import draw16, mix
from formats.reference.writing.protocols import ValueWriter
from formats.vector_cases.case import Case, exact

UNIT = 65_536
SEED = 2**64 - 59
"""A seed that binary64 cannot hold; its JSON is a string."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _qsgd()
    yield from _terngrad()
    yield from _offset_float()
    yield from _three_lc()


def _case(id: str, about: str, numbers: Sequence[float], value: ValueWriter, dtype: str) -> Case:
    letter = {"float32": "f", "float64": "d"}[dtype]
    size = len(numbers)
    t = Tensor("0", dtype, (size,), range(size), struct.pack(f"<{size}{letter}", *numbers))
    return exact(id, about, [t], value=value, seed=SEED)


def _qsgd() -> Iterator[Case]:
    stream = mix(SEED, 0, 0)
    for bits, rough in ((8, 0.9848), (5, 0.4605), (2, 0.9527)):
        s = (1 << (bits - 1)) - 1
        scale = round_to_float32(rough)
        rates = s * UNIT / scale, round_to_float32(s * UNIT / scale)
        numbers = [scale]
        for p in range(1, 96):
            level = 1 + (37 * p) % s
            x = (level * UNIT - draw16(stream, p)) / rates[p % 2]
            numbers.append(x if p % 3 else -x)
        about = f"{bits} bits; each value is next to the border of two levels."
        yield _case(f"qsgd-borders-{bits}", about, numbers, Qsgd(bits=bits), "float32")
        about = "The same values before they are rounded to binary32."
        yield _case(f"qsgd-borders-{bits}-float64", about, numbers, Qsgd(bits=bits), "float64")


def _terngrad() -> Iterator[Case]:
    stream = mix(SEED, 0, 0)
    for name, rough in (("", 0.6180339887), ("-large", 1.7e30)):
        scale = round_to_float32(rough)
        numbers = [scale]
        for p in range(1, 96):
            x = (UNIT - draw16(stream, p) - 0.5) * scale / UNIT
            numbers.append(x if p % 3 else -x)
        about = "Each value is next to half an integer, at the border of two digits."
        yield _case(f"terngrad-borders{name}", about, numbers, TernGrad(), "float32")
        about = "The same values before they are rounded to binary32."
        yield _case(f"terngrad-borders{name}-float64", about, numbers, TernGrad(), "float64")


def _offset_float() -> Iterator[Case]:
    stream = mix(SEED, 0, 0)
    eps = round_to_float32(0.37)
    numbers = []
    for p in range(96):
        x = (UNIT - draw16(stream, p)) * eps / UNIT
        numbers.append(x if p % 3 else -x)
    value = OffsetFloat(4, 23, eps=eps, rounding="stochastic")
    about = "Values below eps, each next to the border of the codes 0 and 1."
    yield _case("offset-float-borders", about, numbers, value, "float32")
    about = "The same values before they are rounded to binary32."
    yield _case("offset-float-borders-float64", about, numbers, value, "float64")
    values = bytes.fromhex("018003000100038002800100")
    for rounding in ("nearest", "stochastic"):
        t = Tensor("0", "float16", (6,), range(6), values)
        about = f"Rounding {rounding}: the mantissa is chosen by errors of the codes' binary32 values."
        yield exact(f"offset-float-sample-{rounding}", about, [t], value=OffsetFloat(3, rounding=rounding))


def _three_lc() -> Iterator[Case]:
    for sparsity in (1.1, 1.7):
        greatest = next(x for n in range(1000) if _differs(x := round_to_float32(1 + n * 0.0137), sparsity))
        half = round_to_float32(greatest * sparsity) / 2
        below = half - 2.0**-24
        numbers = [greatest, half, -half, below, -below, 0.0]
        about = f"Sparsity {sparsity}: the scale is rounded down, and half of it counts."
        yield _case(f"3lc-rounded-{sparsity}", about, numbers, ThreeLC(sparsity), "float32")
        near = half * (1 - 2.0**-40)
        numbers = [greatest * (1 + 2.0**-30), near, -near, below, -below, 0.0]
        about = "The same with float64 elements that are rounded to binary32 first."
        yield _case(f"3lc-rounded-{sparsity}-float64", about, numbers, ThreeLC(sparsity), "float64")
    least = 2.0**-149
    numbers = [n * least for n in (5, 2, -2, 3, 1, -1)]
    about = "The scale is five times the least subnormal number, and half of it is rounded to two."
    yield _case("3lc-rounded-subnormal", about, numbers, ThreeLC(), "float32")


def _differs(greatest: float, sparsity: float) -> bool:
    """Return whether the scale is rounded down, and differs if the sparsity is rounded to binary32 first."""
    scale = round_to_float32(greatest * sparsity)
    return scale < greatest * sparsity and scale != round_to_float32(greatest * round_to_float32(sparsity))
