"""Size and time of whole schemes on the CPU, relative to a copy of the gradient."""
