"""Choice of the all-reduce algorithm by measured rates."""
