"""Build of the packages: the backend that pip calls, and the kernels of a wheel."""
