"""Systems of the training benchmark: each averages the workers' gradients, and counts the bytes."""
