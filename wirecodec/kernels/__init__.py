"""The hot loops, one folder a backend: ``cpu`` (Numba). Callers import a kernel where they first need it.

Importing a kernel module imports Numba, which takes longer than all of wirecodec; a process that never
encodes never pays.
"""
