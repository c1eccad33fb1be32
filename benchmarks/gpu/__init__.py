"""Times of kernels and selectors on a GPU."""
