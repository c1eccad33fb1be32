"""Numba kernels on flat NumPy arrays.

They trust their arguments: callers validate sizes and ranges.
"""

from wirecodec.kernels.uninterrupted import import_uninterrupted

# Before the modules of this folder, which import parts of it: Numba cannot be imported again after an
# interrupt. This is the last part that they import.
import_uninterrupted("numba.np.arrayobj")
