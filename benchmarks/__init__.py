"""Benchmarks: one package per question; results and the machine of each are in ``benchmarks/results``."""

import sys
from importlib.util import find_spec

if sys.argv[:1] == ["-m"] and find_spec("rich") is None:  # `python -m benchmarks.…` is being started
    sys.exit('benchmarks need more than `pip install .`, run in the clone: pip install ".[bench,peers]"')
