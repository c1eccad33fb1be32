"""The data's way on a GPU, with the bytes that `wirecodec.cpu` writes; and `Plan`, which is experimental.

If every stage of a scheme has kernels, the tensor is encoded on its device. Otherwise the host computes the
first stage without kernels and all later ones: elements, or only the selected ones, are copied there through
pinned memory, and the container is copied back. If a kernel meets a value that cannot be encoded, the host
repeats the call and raises the error.
"""

from wirecodec.gpu.plan.plan import Pending, Plan

__all__ = ["Pending", "Plan"]
