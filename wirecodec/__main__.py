"""Run the command line: ``python -m wirecodec``."""

from __future__ import annotations

import sys

from wirecodec.cli import main

sys.exit(main())
