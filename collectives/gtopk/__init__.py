"""gTop-k: the global top k of all ranks' sparse gradients, merged along a tree."""
