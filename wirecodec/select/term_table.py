"""Temporary name of ``select.topk.term_table``."""

from wirecodec.select.topk import term_table

TermTable = term_table.TermTable
