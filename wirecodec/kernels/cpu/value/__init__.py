"""Kernels of the value codecs, one file per codec."""
