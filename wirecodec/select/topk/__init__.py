"""``topk``: the k elements of largest magnitude.

selector     ``TopK``
exact        one array
term_table   many tensors: arrays, or sums of gradient, momentum and residual
each         the top k of each tensor of a table
joint        one top k of all tensors of a table
"""

from wirecodec.select.topk.selector import TopK, fraction_count

__all__ = ["TopK", "fraction_count"]
