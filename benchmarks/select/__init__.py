"""The parts of ``benchmarks.select``: times in reads, how near to k, corners, targets, report, picture."""
