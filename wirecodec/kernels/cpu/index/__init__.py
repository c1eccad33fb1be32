"""Loops of the index codecs, one file per codec."""
