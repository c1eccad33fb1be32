"""Times of whole encode and decode calls, relative to a copy."""
