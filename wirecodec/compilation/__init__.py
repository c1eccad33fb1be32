"""Compilation of a scheme's kernels in advance, and the query whether any is left to compile.

Kernels are compiled when they are first called. ``warm`` calls them on small tensors of its own, so that the
first gradient need not wait.
"""

from wirecodec.compilation.warm import Warmth, warm

__all__ = ["Warmth", "warm"]
