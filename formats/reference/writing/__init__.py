"""Writers of containers and sections, for golden vectors and tests."""
