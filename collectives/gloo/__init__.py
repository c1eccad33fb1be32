"""Communicators over process groups of torch, whose messages travel by gloo."""
