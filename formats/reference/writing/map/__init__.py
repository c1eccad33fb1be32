"""Map sections."""
