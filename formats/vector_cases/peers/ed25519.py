"""Ed25519 (RFC 8032, section 5.1) with Python's integers, for keys that everybody knows: it is not secret."""

from __future__ import annotations

import hashlib

Point = tuple[int, int, int, int]
"""Extended coordinates X, Y, Z and T."""

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, PRIME) % PRIME
_ROOT = pow(2, (PRIME - 1) // 4, PRIME)


def _recover_x(y: int, sign: int) -> int | None:
    """Return the x of a point with a given y and lowest bit of x, or None."""
    if y >= PRIME:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if (x * x - square) % PRIME:
        x = x * _ROOT % PRIME
    if (x * x - square) % PRIME or (x == 0 and sign):
        return None
    return PRIME - x if x & 1 != sign else x


def _make_base() -> Point:
    y = 4 * pow(5, -1, PRIME) % PRIME
    x = _recover_x(y, 0)
    assert x is not None
    return x, y, 1, x * y % PRIME


BASE = _make_base()


def _add(one: Point, other: Point) -> Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % PRIME
    b = (one[1] + one[0]) * (other[1] + other[0]) % PRIME
    c = 2 * one[3] * other[3] * _D % PRIME
    d = 2 * one[2] * other[2] % PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME


def _multiply(factor: int, point: Point) -> Point:
    total: Point = (0, 1, 1, 0)
    while factor:
        if factor & 1:
            total = _add(total, point)
        point, factor = _add(point, point), factor >> 1
    return total


def _compress(point: Point) -> bytes:
    inverse = pow(point[2], -1, PRIME)
    x, y = point[0] * inverse % PRIME, point[1] * inverse % PRIME
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _decompress(data: bytes) -> Point | None:
    number = int.from_bytes(data, "little")
    y = number & (2**255 - 1)
    x = _recover_x(y, number >> 255)
    return None if x is None else (x, y, 1, x * y % PRIME)


def _expand(private: bytes) -> tuple[int, bytes]:
    hashed = hashlib.sha512(private).digest()
    scalar = int.from_bytes(hashed[:32], "little")
    return scalar & (2**254 - 8) | 2**254, hashed[32:]


def _hash(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER


def find_public(private: bytes) -> bytes:
    """Return the public key of a private key."""
    return _compress(_multiply(_expand(private)[0], BASE))


def sign(private: bytes, message: bytes) -> bytes:
    """Return the signature of a message, 64 bytes."""
    scalar, prefix = _expand(private)
    public = _compress(_multiply(scalar, BASE))
    nonce = _hash(prefix, message)
    point = _compress(_multiply(nonce, BASE))
    return point + ((nonce + _hash(point, public, message) * scalar) % ORDER).to_bytes(32, "little")


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether a signature is right: R is the encoding of [S]B - [k]A, and S is below the order."""
    key, number = _decompress(public), int.from_bytes(signature[32:], "little")
    if key is None or len(signature) != 64 or number >= ORDER:
        return False
    negative = (PRIME - key[0], key[1], 1, PRIME - key[3])
    factor = _hash(signature[:32], public, message)
    return _compress(_add(_multiply(number, BASE), _multiply(factor, negative))) == signature[:32]
