"""Time and accuracy of selectors, compared with other top-k implementations."""
