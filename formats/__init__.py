"""The wire format as a standard: specification, golden vectors, a reference decoder and a conformance runner.

Nothing in this folder depends on the library, or on anything but Python's standard library. An
implementation in any language can be tested with this folder alone. SPEC.md is normative: if the code and
SPEC.md differ, the code is wrong.
"""
