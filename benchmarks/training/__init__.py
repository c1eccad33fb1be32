"""Training of small models, for saved gradients and for AdaComp's compression rate; needs torch."""
