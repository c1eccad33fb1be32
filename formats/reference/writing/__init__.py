"""Writers of containers and sections, for vectors and tests."""
