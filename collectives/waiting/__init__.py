"""Waiting with a deadline, and the roll call that finds the missing ranks when it is over."""
