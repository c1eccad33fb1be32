"""Bit-level coders that several codecs share: packing, prefix codes, varints, arithmetic coding."""
