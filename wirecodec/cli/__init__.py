"""The command ``wirecodec``, and all that only it uses."""

from wirecodec.cli.main import main

__all__ = ["main"]
