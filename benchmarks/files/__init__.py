"""One tensor of many, read from a file."""
