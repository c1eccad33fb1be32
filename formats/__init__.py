"""The wire format as a standard: specification, golden vectors, a reference decoder and a conformance runner.

Nothing below this folder depends on the library that uses the format, or on anything but Python's standard
library: an implementation in any language can be judged by what stands here alone. SPEC.md is normative;
where the code and SPEC.md differ, the code is wrong.
"""
