"""CUDA kernels that write the same bytes as those of ``kernels/cpu``.

The sources (``*.cu``, ``*.cuh``) need no header of CUDA's: NVRTC compiles them where CUDA's toolkit is not
installed, and a C++ compiler does with a few definitions more, so that a machine without a GPU can run them.
``nvrtc`` calls the compiler, ``build`` caches what it makes, ``device`` loads and launches it; the modules
beside them know which kernels to launch, in what order, with how much memory.
"""
