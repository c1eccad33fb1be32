"""Soak of feeds: a writer and readers in processes of their own, under random faults.

python -m tests.collectives.feed.soak --versions 500 --readers 8 --seed 1

ledger   what writers intend and publish, and what readers have, line by line; the promises are checked here
weather  faults of the store, and what strangers put into it
roles    the writer and the reader, each in a process that may be killed at any time
"""
