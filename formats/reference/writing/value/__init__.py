"""Value sections from elements: one writer per file (the Writing part of each page in spec/value/)."""
