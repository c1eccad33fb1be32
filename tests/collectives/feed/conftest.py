"""Fixtures of stores, which the tests of rounds have."""

from tests.collectives.store.conftest import s3, store

__all__ = ["s3", "store"]
