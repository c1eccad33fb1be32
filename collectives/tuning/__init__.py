"""The automatic choice of an algorithm: measured rates and a cost model."""
