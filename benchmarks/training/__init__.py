"""Training of small models with compressed gradients; needs torch."""
