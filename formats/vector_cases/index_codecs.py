"""Index codecs: valid containers of every codec and of every size at which a section changes its form.

Exact ones include the input from which an encoder must make the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from formats.reference import Qsgd, Rice, Tensor, write
from formats.reference.writing.container import Index
from formats.vector_cases.case import Case, exact, rice, sparse, spread, valid

INDEX: dict[str, Index] = {"raw-index": "raw-index", "bitmap": "bitmap", "rice": Rice()}


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    for name, index in INDEX.items():
        for r in (1, 2, 18, 19):
            t = sparse("0", 19, spread(r, 19, r))
            yield exact(f"{name}-r{r}", f"{name}, {r} of 19 elements.", [t], index)
    yield from _index()
    yield from _rice_blocks()
    yield from _rice_foreign()


def _index() -> Iterator[Case]:
    for d in (65_536, 65_537):
        t = sparse("0", d, [0, 255, 256, d - 1])
        yield exact(f"raw-index-d{d}", "Where raw-index changes from u16 to u32.", [t])
    for d in (7, 8, 9, 63, 64, 65):
        t = sparse("0", d, [0, d - 1])
        yield exact(f"bitmap-d{d}", "The tail of a bitmap.", [t], "bitmap")
    t = sparse("0", 2**24, [2**24 - 1])
    yield exact("rice-gap-most", "The largest gap: an element of 2^24, the last.", [t], Rice())
    t = sparse("0", 2**24, [0])
    yield exact("rice-gap-least", "The smallest gap in the largest chunk.", [t], Rice())
    t = sparse("0", 40, [n for n in range(40) if n != 20])
    yield exact("rice-b0", "Dense: b = 0, the unary part is the bitmap.", [t], Rice())
    t = sparse("0", 64, [1, 3, 5, 7])
    yield exact(
        "rice-tie", "Gaps of 1: b = 0 and b = 1 are equally small, the lower is written.", [t], Rice()
    )
    gaps = [64] * 82 + [192] * 18
    t = _halves(gaps)
    yield exact("rice-far-b", "A block whose best b, 7, is 2 above floor(log2(0.7 mean)).", [t], Rice())


def _halves(gaps: Sequence[int], beyond: int = 1) -> Tensor:
    """Return a float16 tensor with these gaps, all of its values 1."""
    indices = []
    at = 0
    for gap in gaps:
        indices.append(at + gap)
        at += gap + 1
    return Tensor("0", "float16", (at + beyond,), indices, b"\x00\x3c" * len(gaps))


def _gaps(r: int, period: int) -> list[int]:
    """Return gaps that repeat, with a density that changes from block to block."""
    return [(3 * (i % period) % 7) << (i // 256 % 5) for i in range(r)]


def _rice_blocks() -> Iterator[Case]:
    ones = Qsgd(bits=2, bucket=2**24)
    for r in (31, 32, 33, 255, 256, 257, 511, 512, 513):
        t = _halves(_gaps(r, 7))
        yield exact(
            f"rice-r{r}", f"{r} gaps: {r // 256} blocks in lanes and {r % 256} gaps more.", [t], Rice(), ones
        )
    for r in (4095, 4096, 4097, 4351, 4352, 4353, 8192, 8193):
        t = _halves([(i // 97) ** 2 % 11 for i in range(r)])
        yield exact(f"rice-r{r}", f"{r} gaps in {-(-r // 4096)} spans.", [t], Rice(), ones)
    t = _halves([0] * 4096 + [5] + [0] * 300)
    yield exact("rice-spans-b0", "Two spans without low bits.", [t], Rice(), ones)
    t = _halves([1 << (i // 256) for i in range(4096)] + [9])
    yield exact("rice-b-rising", "Sixteen blocks with sixteen different parameters.", [t], Rice(), ones)


def _rice_foreign() -> Iterator[Case]:
    few = sparse("0", 1000, [3, 400, 999])
    for b in (0, 1, 9, 24):
        about = f"b = {b}, which an exact writer would not choose."
        yield valid(f"rice-foreign-b{b}", about, write([few], rice(b), names=False), [few])
    ones = Qsgd(bits=2, bucket=2**24)
    t = _halves([i // 90 % 5 for i in range(4096 + 256 + 9)])
    for id, parameters in (("mixed", [0, 3, 24, 7, 1]), ("b24", [24]), ("b0", [0])):
        some = _halves([i % 5 for i in range(300)]) if id == "b24" else t
        data = write([some], rice(*parameters), ones, names=False)
        yield valid(f"rice-foreign-blocks-{id}", "Lanes and spans with foreign parameters.", data, [some])
    last = sparse("0", 20_001, [0, 20_000])
    data = write([last], rice(0), names=False)
    yield valid("rice-foreign-long-unary", "Twenty thousand zero bits in a row.", data, [last])
