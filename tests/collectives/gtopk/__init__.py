"""Tests of gTop-k."""
