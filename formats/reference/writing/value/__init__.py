"""Value sections from elements: one writer per file."""
