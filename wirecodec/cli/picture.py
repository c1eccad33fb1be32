"""An empty picture, for the command line: Matplotlib's, without a window."""

from __future__ import annotations

from typing import Any

from wirecodec.errors import EncodeError

__all__ = ["blank"]


def blank(width: float, height: float) -> Any:
    """A figure of so many inches; EncodeError where Matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise EncodeError("a picture needs Matplotlib: pip install 'wirecodec[bench]'") from None
    figure = Figure(figsize=(width, height), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    return figure
