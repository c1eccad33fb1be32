"""The algorithms of allreduce, one module each, and the containers of ranges that some exchange."""
