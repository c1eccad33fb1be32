"""The page: rows, tables and pictures of each paper."""
