"""The data's way on the host: select, encode, decode, step, accumulate. `wirecodec.gpu` is its twin."""
