"""Index sections from supports: one writer per file (the Writing part of each page in spec/index/)."""
