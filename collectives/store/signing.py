"""Signatures of objects: Ed25519, by the package ``cryptography``, which is loaded only if there are keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collectives.store.envelope import NO_SIGNATURE, Sign, Verify, check_everyone, names_digest
from collectives.store.layout import check_name

KEY = 32
_HEXADECIMAL = re.compile(rf"[0-9a-fA-F]{{{2 * KEY}}}")
ROUNDS, FEEDS = b"wirecodec rounds 2\0", b"wirecodec feeds 1\0"
"""What signed statements of a protocol begin with, so that they are not valid in others."""


@dataclass(frozen=True)
class Ring:
    """Keys of a peer.

    Attributes:
        sign: returns the signature of a statement.
        verify: tells whether a peer has signed a statement.
        names: that have a key; empty if anybody may take part.
        digest: of all names and public keys; "" without keys.
    """

    sign: Sign
    verify: Verify
    names: frozenset[str]
    digest: str


def make_ring(name: str, key: bytes | None, keys: Mapping[str, bytes] | None, domain: bytes = ROUNDS) -> Ring:
    """Return the keys of a peer.

    Args:
        name: of this peer.
        key: its private key, 32 bytes, or None.
        keys: {name: public key of 32 bytes} of all peers that may take part, or None for anybody.
        domain: of the protocol.

    Raises:
        ValueError: one of both is missing, or the keys do not fit.
        ImportError: there are keys, and ``cryptography`` is missing.
    """
    if key is None and keys is None:
        return Ring(lambda _: NO_SIGNATURE, check_everyone, frozenset(), "")
    if key is None or not keys:
        raise ValueError("key and keys belong together: pass this peer's private key and all public keys")
    verify = make_verifier(keys, domain)
    _check_key("key", key)
    ed25519 = _load()
    private = ed25519.Ed25519PrivateKey.from_private_bytes(key)
    if name not in keys:
        raise ValueError(f"keys has no public key of this peer, {name!r}")
    if private.public_key().public_bytes_raw() != keys[name]:
        raise ValueError(f"key is not the private key of {name!r}, whose public key is in keys")
    return Ring(
        lambda statement: bytes(private.sign(domain + statement)),
        verify,
        frozenset(keys),
        names_digest(keys),
    )


def make_verifier(keys: Mapping[str, bytes] | None, domain: bytes = ROUNDS) -> Verify:
    """Return the function that checks signatures.

    Args:
        keys: {name: public key of 32 bytes} of all that may write, or None for anybody.
        domain: of the protocol.

    Raises:
        ValueError: a name or a key is not valid.
        ImportError: there are keys, and ``cryptography`` is missing.
    """
    if keys is None:
        return check_everyone
    for other, public in keys.items():
        check_name(other, "a name in keys")
        _check_key(f"the public key of {other!r}", public)
    load = _load().Ed25519PublicKey.from_public_bytes
    public_keys = {other: load(public) for other, public in keys.items()}
    return lambda name, statement, signature: _is_signed(public_keys.get(name), domain + statement, signature)


def make_key() -> tuple[bytes, bytes]:
    """Make a private key and its public key, 32 bytes each; raise ImportError without ``cryptography``."""
    private = _load().Ed25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


def _is_signed(public: Any, statement: bytes, signature: bytes) -> bool:
    """Return whether a public key's owner has signed a statement."""
    from cryptography.exceptions import InvalidSignature

    if public is None:
        return False
    try:
        public.verify(signature, statement)
    except InvalidSignature:
        return False
    return True


def _check_key(what: str, key: Any) -> None:
    if not isinstance(key, bytes) or len(key) != KEY:
        raise ValueError(f"{what} is not {KEY} bytes{_explain_hexadecimal(key)}")


def _explain_hexadecimal(key: Any) -> str:
    """Return a hint for a key that is text, as a file of keys may have it."""
    text = key.decode("ascii", "replace") if isinstance(key, bytes) else key
    if not isinstance(text, str) or not _HEXADECIMAL.fullmatch(text.strip()):
        return ""
    call = "bytes.fromhex(key)" if isinstance(key, str) else "bytes.fromhex(key.decode())"
    return f"; it is {2 * KEY} hexadecimal digits, so pass {call}"


def _load() -> Any:
    """Import the module of Ed25519 keys."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ImportError(
            "keys need the package cryptography: pip install cryptography", name="cryptography"
        ) from error
    return ed25519
