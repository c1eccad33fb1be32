"""Index codecs: one decoder per file, with the checks of its page in the page's order."""
