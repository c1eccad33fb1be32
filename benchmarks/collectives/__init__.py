"""Times of collectives between emulated hosts, relative to the byte limit and to MPI's own collectives."""
