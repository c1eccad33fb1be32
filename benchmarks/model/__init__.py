"""Time of whole models of many tensors, compared with one flat vector of as many elements."""
