"""Training over shaped links: real ranks, one per emulated host, and seconds until a loss."""
