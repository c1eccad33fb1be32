"""The project's site: guides, and the code that gathers the repository's pages for MkDocs (`make docs`)."""
