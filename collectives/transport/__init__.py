"""Data movement under a deadline: all-gather, all-to-all, broadcast and reduce of blocks of any length."""
