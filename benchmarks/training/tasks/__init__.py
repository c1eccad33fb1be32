"""Tasks of the training benchmark: data made by a script, a model, an optimizer and a metric each."""
