"""Exchange through an object store: peers come and go, and the store agrees on who counts in a round."""
