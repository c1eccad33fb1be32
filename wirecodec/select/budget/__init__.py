"""Selection within a budget of bytes: the cheapest candidates of codec and error for what is sent."""
