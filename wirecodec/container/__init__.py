"""The container: bytes to table and back (formats/SPEC.md, sections 2, 3 and 7)."""
