"""Many runs at once on a GPU: their models are stacked, and a step of all of them is one CUDA graph."""
