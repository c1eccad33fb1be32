"""Measurements of tables and figures of five papers, other than those about training."""
