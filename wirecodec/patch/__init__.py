"""Patches of weights: the changes from one state to another, given the old one (formats/spec/patch.md).

    diff:   two states -> ``diff`` finds changes -> ``positions`` and ``steps`` code them -> a container
    apply:  a container -> ``prepared`` decodes and checks it against a state -> a commit writes elements

``states`` reads tensors of frameworks as bits, and writes them in place.
"""

from wirecodec.patch.apply import apply, merge
from wirecodec.patch.diff import diff

__all__ = ["apply", "diff", "merge"]
