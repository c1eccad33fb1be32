"""The parts of ``benchmarks.value``: vectors, bounds, coders, peers, figures, targets, report, pictures."""
