"""The reference decoder as a program (vectors/README.md, Testing a decoder).

python -m formats.reference [ARGUMENT] < CONTAINER
"""

from __future__ import annotations

import json
import sys

from formats.conformance import reference
from formats.program import answer

if __name__ == "__main__":
    argument = sys.argv[1] if len(sys.argv) > 1 else ""
    print(json.dumps(answer(reference, sys.stdin.buffer.read(), argument)))
