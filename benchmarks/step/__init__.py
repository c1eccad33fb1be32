"""Time and memory of whole steps, as a training program sees them."""
