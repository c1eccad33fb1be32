"""Bit-level coders shared by several codecs: packing, Huffman codes, varints, arithmetic coding."""
