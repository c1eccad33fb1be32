"""Inverse transforms."""
