"""A peer of a run, written from rounds.md, agreement.md and scheme.md alone: it makes their vectors.

It is slow and plain, and imports nothing but the reference decoder of containers.

    ed25519   signatures
    header    agreement headers: bytes, hashes, the decision on a table of headers, weights and sums
    objects   envelopes, settings, contributions, proposals: bytes and checks
    rounds    the log of a round, the verdict of each object, the members and their sum
    states    states of local updates: bytes, digests, the outer step, and a peer that joins
    texts     strings that are hashed as the scheme
"""
