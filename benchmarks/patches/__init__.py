"""Patches of weights: bits per changed element and speed, compared with the formats of other projects."""
