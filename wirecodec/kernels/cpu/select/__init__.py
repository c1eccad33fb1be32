"""Loops of the selectors and of error feedback."""
