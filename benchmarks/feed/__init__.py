"""Feeds of weights over shaped links: seconds from a trainer's step to the weights that rollouts serve."""
