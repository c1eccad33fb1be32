"""Selectors that reproduce papers; exact ``topk`` is faster than all of them on today's CPUs."""
