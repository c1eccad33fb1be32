"""What only a GPU can show: CuPy's arrays in and out, streams, sizes, golden vectors, compute-sanitizer."""
