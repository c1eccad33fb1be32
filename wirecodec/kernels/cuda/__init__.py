"""CUDA kernels that write the same bytes as those of ``kernels/cpu``.

The sources (``*.cu``, ``*.cuh``) include no CUDA header. So NVRTC compiles them without the CUDA toolkit, and
a C++ compiler needs only a few definitions, so that tests run them on a machine without a GPU. ``nvrtc``
calls the compiler, ``build`` caches its output, and ``device`` loads and launches kernels. Each of the other
modules launches the kernels of the sources that it names.
"""
