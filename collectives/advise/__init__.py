"""Command ``wirecodec advise``: find the schemes that make an exchange faster."""
