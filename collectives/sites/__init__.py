"""Sites: groups of ranks with fast links, and slow links between them."""
