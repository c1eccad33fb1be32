"""Choice of the all-reduce algorithm: measured rates and a cost model."""
