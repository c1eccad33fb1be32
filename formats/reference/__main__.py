"""The reference decoder as a program (vectors/README.md, Testing a decoder).

python -m formats.reference [ARGUMENT] < CONTAINER_OR_STREAM
"""

from __future__ import annotations

import json
import sys

from formats import indexes, patches, peers
from formats.conformance import reference
from formats.program import answer, answer_index, answer_patch, answer_stream
from formats.streams import reference_of

if __name__ == "__main__":
    data, argument = sys.stdin.buffer.read(), "".join(sys.argv[1:]) or "{}"
    fields = json.loads(argument)
    if kind := fields.get("stream"):
        answered = answer_stream(reference_of(kind), data, argument)
    elif fields.get("index"):
        answered = answer_index(indexes.reference, data, argument)
    elif folder := fields.get("peer"):
        answered = peers.reference(folder, json.loads(data))
    elif "state" in fields:
        answered = answer_patch(patches.reference, data, argument)
    else:
        answered = answer(reference, data, argument)
    print(json.dumps(answered))
