"""Picture of ``wirecodec rounds --png``: who took part in each round, and the bytes of the members."""

from __future__ import annotations

from collectives.rounds.history import History, RoundRecord
from wirecodec.cli.files import FileArgument
from wirecodec.cli.formatting import escape, shorten
from wirecodec.cli.picture import new_figure, save_png

_COLOURS = {"counted": "#0072B2", "late": "#E69F00", "refused": "#D55E00"}
_MAX_PEERS = 80
"""Peers that the picture shows."""


def draw_history(history: History, file: FileArgument) -> None:
    """Draw the rounds as a PNG file; raise ValueError if Matplotlib is not installed."""
    rounds = history.rounds
    names = sorted({name for one in rounds for name in (*(one.members or ()), *one.refused, *one.late)})
    names = names[:_MAX_PEERS]
    figure = new_figure(10, 2.5 + 0.22 * max(len(names), 4))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[max(len(names), 4), 5])
    for kind, colour in _COLOURS.items():
        points = [
            (one.number, row)
            for one in rounds
            for row, name in enumerate(names)
            if _kind_of(one, name) == kind
        ]
        above.scatter(
            *zip(*points, strict=True) if points else ([], []), s=14, marker="s", color=colour, label=kind
        )
    above.set_yticks(range(len(names)), [shorten(escape(name), 24) for name in names], fontsize=8)
    above.set_ylim(len(names) - 0.5, -0.5)
    above.set_title(f"{escape(history.run)}: who took part", loc="left", fontsize=11)
    above.legend(loc="lower left", bbox_to_anchor=(0.6, 1.0), ncols=3, frameon=False, fontsize=8)
    known = [one for one in rounds if one.sizes]
    below.bar([one.number for one in known], [sum(one.sizes) for one in known], color="#56B4E9")
    below.set_ylabel("bytes of all members")
    below.set_xlabel("round")
    below.xaxis.get_major_locator().set_params(integer=True)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    save_png(figure, file)


def _kind_of(one: RoundRecord, name: str) -> str:
    """Return what happened to a peer in a round; "" if it was not there."""
    if name in (one.members or ()):
        return "counted"
    return "late" if name in one.late else "refused" if name in one.refused else ""
