"""CLT-k (ScaleCom): one rank selects for all ranks, so that sparse gradients are summed like dense ones."""
