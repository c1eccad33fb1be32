"""Figures of Matplotlib, which is optional."""

from __future__ import annotations

from typing import Any

from wirecodec.cli.files import FileArgument
from wirecodec.cli.output import open_output


def load_classes() -> tuple[Any, Any]:
    """Return Matplotlib's canvas without a display, and its figure.

    Raises:
        ValueError: Matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("a picture needs Matplotlib: pip install matplotlib") from None
    return FigureCanvasAgg, Figure


def new_figure(width: float, height: float) -> Any:
    """Create an empty figure that needs no display.

    Args:
        width: inches.
        height: inches.

    Raises:
        ValueError: Matplotlib is not installed.
    """
    add_canvas, make_figure = load_classes()
    figure = make_figure(figsize=(width, height), dpi=130, layout="constrained")
    add_canvas(figure)
    return figure


def save_png(figure: Any, file: FileArgument) -> None:
    """Write a figure as a PNG file, or to standard output."""
    with open_output(file) as opened:
        figure.savefig(opened, format="png")
