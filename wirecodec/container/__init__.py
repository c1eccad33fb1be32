"""Container: prefix, table, extension block and sections (formats/SPEC.md, sections 2, 3 and 7)."""
