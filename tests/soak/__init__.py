"""Long run of random collectives with random faults, over MPI: ``make soak``."""
