"""What does an index cost, in bits and in time, and what would others' compressors cost?

Every index codec of the registry, and every peer that is installed, on the same supports. Sizes stand beside
the entropy bound of each kind of support; times are speeds relative to ``np.copyto`` of the same u32 indices
in the same run, so that 0.20× means that the copy takes a fifth of the time.

    python -m benchmarks.index [--quick] [--data FOLDER] [--only WORD,WORD] [--output FOLDER]
"""
