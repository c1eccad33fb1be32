"""Completion of the command's words in a shell, by the scripts that the package shtab writes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from wirecodec.cli.files import parse_file

SHELLS = ("bash", "zsh", "fish", "tcsh")


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add ``--print-completion``, which prints a script and ends the command."""
    parser.add_argument(
        "--print-completion",
        action=_PrintCompletion,
        choices=SHELLS,
        help="print a completion script for this shell, and exit; needs shtab",
    )


class _PrintCompletion(argparse.Action):
    """Option that prints the script of a shell for the parser to which it belongs."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Print the script, and raise SystemExit; raise ValueError without shtab."""
        try:
            import shtab
        except ImportError:
            raise ValueError("shell completion needs shtab: pip install shtab") from None
        shell = str(values)
        if shell not in shtab.SUPPORTED_SHELLS:
            raise ValueError(f"this version of shtab has no {shell}: pip install --upgrade shtab")
        for action in _list_actions(parser):
            if action.metavar == "FILE" or action.type is parse_file:
                action.complete = shtab.FILE
        print(shtab.complete(parser, shell))
        parser.exit()


def _list_actions(parser: argparse.ArgumentParser) -> Iterator[Any]:
    """Yield the arguments of a parser and of its subcommands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _list_actions(command)
