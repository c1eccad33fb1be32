"""Value codecs: one decoder per file."""
