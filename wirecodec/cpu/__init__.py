"""Implementation on the host: select, encode, decode, step, accumulate; ``wirecodec.gpu`` mirrors it."""
