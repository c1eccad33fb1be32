"""Tables and figures of the five papers that are not about training: theirs and ours side by side."""
