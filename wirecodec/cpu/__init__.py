"""Encoding and decoding on the host. Follow a tensor through the rooms:

    entry       the functions that the public ones call

    step        a Compressor's step: clip, add, select, encode, keep what was not sent
    momentum      clipping, momentum and decay of a gradient
    residual      gradient + residual, and the residual that is left after sending
    group         selection from the sum of one tensor, or of several as of one vector

    select      transform and selector: a tensor -> Support, its selected elements
    costs         the bytes of header and selection, for selectors with a budget
    weights       a budget divided among the parts of a group
    selected    selected elements of many tensors as columns, and of a model
    encode      selects from tensors, and Supports -> container
    fuse          several tensors as one vector, for entries that small tensors share
    chunk         one chunk through its codecs, both ways
    sent          what receivers decode, which the sender knows without decoding all

    decode      container -> chunks -> tensors
    chunk_store   decoded chunks of many small tensors
    columns       many arrays, and decoded entries, as columns
    add         containers into arrays: sums and means
    guard         checks of values before they are added
    norm          norms that neither overflow nor underflow

    forms       the table of fast forms, with a switch: stages look their form up
    fast        all that exists for speed alone; it fills the table, and no stage imports it

A scheme's selector meets the tensor in ``select.choose``, and on a GPU in ``gpu.select.dispatch.choose``. A
selector that takes many tensors, or selects while it adds, meets them in ``fast.encode``, ``fast.sums`` and
``fast.group``. A budget's search meets the codecs in ``costs.CodecCosts``, which keeps what they have
encoded. A residual is completed in ``residual.AccumulatedGradient.remainder``; ``fast.sums.complete`` does
the same for many tensors.
"""
