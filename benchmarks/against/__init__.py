"""Times of calls in this checkout and in an earlier one, in turns on one core."""
