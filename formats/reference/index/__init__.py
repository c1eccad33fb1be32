"""Index codecs: one decoder per file."""
