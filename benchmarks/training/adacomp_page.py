"""Compression rate of AdaComp on real gradients, with its own error feedback.

The convolutions of ResNet-20 use ``adacomp`` with bins of 50, as in the paper, and of 500. The matrices of an
LSTM language model use bins of 500, as in the paper. Each layer is compressed separately and has its own
residual. Vectors are sent dense and do not count. Rates before 50 steps of feedback are not representative:
the first gradient has no residual, and AdaComp sends a large part of it.

    python -m benchmarks.training.adacomp_page [--steps N]

Needs torch and scikit-learn: ``pip install torch scikit-learn``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.common.command import create_parser
from benchmarks.common.results import write_result

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print the page, and write it."""
    parser = create_parser(__doc__, f"{__package__}.adacomp_page")
    parser.add_argument("--steps", type=int, default=200, help="training steps (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        from benchmarks.training.adacomp import measure_page
    except ImportError as error:
        sys.exit(f"this benchmark trains models ({error}): pip install torch scikit-learn")
    text = measure_page(options.steps)
    print(text)
    print(write_result("adacomp", "AdaComp with its own error feedback", text))


if __name__ == "__main__":
    main()
