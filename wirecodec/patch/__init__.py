"""Patches of weights: the changes from one state to another, given the old one (formats/spec/patch.md)."""
