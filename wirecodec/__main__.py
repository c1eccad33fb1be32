"""``python -m wirecodec``: the command line."""

from __future__ import annotations

import sys

from wirecodec.cli import main

sys.exit(main())
