"""Tests that need a GPU: CuPy arrays in and out, streams, sizes, golden vectors, compute-sanitizer."""
