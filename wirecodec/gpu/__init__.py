"""The pipeline on a GPU; it writes the same bytes as `wirecodec.cpu`.

If every stage of a scheme has kernels, the tensor is encoded on its device. Otherwise the host runs the first
stage without kernels and all later ones: all elements, or only the selected ones, are copied there through
pinned memory, and the container is copied back. If a kernel meets a value that cannot be encoded, the host
repeats the call and raises the error. Nothing here has been measured on hardware.
"""
