"""Ok-Topk: owners of ranges sum what the ranks select, and choose again what all ranks receive."""
