"""CUDA kernels without a GPU: compiled by NVRTC for what they will run on, and run by simt.hpp on the CPU."""
