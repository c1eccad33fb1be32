"""Time of a step over ranks and bandwidths, predicted from measured rates and checked by real runs."""
