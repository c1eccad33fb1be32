"""The parts of ``benchmarks.index``: cases, coders and peers, figures, targets, report, picture."""
