"""One script a question; what they measured, with the machine's name, stands in results/."""
