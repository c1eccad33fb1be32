"""Training of small models with compressed gradients, and models for saved gradients; needs torch."""
