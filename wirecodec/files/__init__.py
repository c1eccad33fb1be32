"""Files of tensors: closed streams with an index, of which one tensor is read without the others.

source   reads ranges of a file or of an object in a bucket
index    the units that close a stream, and the place of each tensor in it (formats/spec/stream.md)
reader   finds, reads and checks a tensor
writer   appends containers, and closes the stream
"""
