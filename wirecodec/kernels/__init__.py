"""Hot loops, one folder per backend: ``cpu`` (Numba) and ``cuda`` (CUDA C++ through CuPy).

Callers import a kernel in the function that uses it. Importing a kernel module imports Numba, which takes
longer than importing all of wirecodec; processes that never encode do not pay for it.
"""
