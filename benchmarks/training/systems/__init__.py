"""Systems of the training benchmark: how the workers' gradients become one mean, and how many bytes that takes."""
