"""Map codecs."""
