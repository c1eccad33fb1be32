"""Tests of the wire format's own files: reference decoder, golden vectors, conformance runner."""
