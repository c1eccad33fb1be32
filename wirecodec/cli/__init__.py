"""The command ``wirecodec``: encode, decode, inspect, measure and compare, from a shell.

Each subcommand is one module, which defines its options, its work and its exit code; ``main`` runs them. The
library does not import this package. README.md describes the command for its users.
"""

from wirecodec.cli.main import main, run

__all__ = ["main", "run"]
