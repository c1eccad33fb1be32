"""Steps of many tensors in one launch per stage; ``wirecodec.cpu.fast`` switches them off, too.

plan              memory and tables of a set of tensors, which later steps use again
batch             selection, encoding and the container
feedback, encode  with error feedback, and without
add               containers added to arrays
"""
