"""Index sections from supports: one writer per file."""
