"""Kernels of patches (formats/spec/patch.md): digests, changes, positions by class, steps of elements."""
