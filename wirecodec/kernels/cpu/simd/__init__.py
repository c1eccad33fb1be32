"""SIMD operations for the CPU kernels: processor instructions that NumPy's language cannot express."""
