"""Tensors on a GPU ⇄ containers on the same GPU, with the bytes that the CPU would have written.

A scheme whose parts all have kernels is encoded where the tensor lies. Of another one the part that has none
and all that follow it are done on the host: elements, or only those selected, go there through pinned memory,
and the container comes back. ``encode`` and ``decode`` say which parts have kernels. Where a kernel finds
something that cannot be encoded, the CPU's code is asked the same and says what is wrong.
"""
