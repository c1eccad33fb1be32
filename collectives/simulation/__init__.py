"""Ranks simulated in one process, with a model of the network."""
