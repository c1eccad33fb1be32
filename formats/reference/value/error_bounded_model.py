"""The model of value codec 14, error-bounded (spec/value/error-bounded.md, Symbols to Lanes and contexts).

``SYMBOLS`` defines the symbols, ``frequencies`` computes a row of the tables, and ``Lane`` predicts the next
value of a lane. The decoder and the writer use them.
"""

from __future__ import annotations

from dataclasses import dataclass

from formats.reference.value.error_bounded_levels import CENTRED, OFFSET, SHIFTED

BLOCK = 2**17
ROWS = 26
BINS = 32
ESCAPE = 48
MAX_START = 57
NONE = 255
ONE = 4096
STATE = 1 << 16
MAX_K = 2**20 - 1
MIN_STEP = 2.0**-126
WIDTHS = [1] * 8 + [2] * 4 + [4] * 4 + [1] * 16 + [1]
"""Number of symbols of each bin; the last is that of the escape."""
POWERS = [
    *(1048576, 1004120, 961548, 920782, 881744, 844361, 808563, 774282),
    *(741455, 710020, 679917, 651091, 623487, 597053, 571740, 547500),
]
SYMBOLS = [(k, 0) for k in range(32)]
"""(base, bits) of each symbol."""
for _bits in (3, 4, 5, 6):
    SYMBOLS += [((4 + _quarter) << _bits, _bits) for _quarter in range(4)]
SYMBOLS.append((0, 24))


def split_blocks(r: int) -> list[range]:
    """Return the positions of the values of each block."""
    count = -(-r // BLOCK)
    return [range(r * n // count, r * (n + 1) // count) for n in range(count)]


def lane_count(m: int) -> int:
    """Return the number of lanes of a block of m values."""
    if m >= 16_384:
        return 32
    return 4 if m >= 1024 else 1


def split_steps(m: int) -> list[list[int]]:
    """Return the positions of the values that each step codes, lane after lane."""
    lanes = lane_count(m)
    short, more = divmod(m, lanes)
    starts = [lane * short + min(lane, more) for lane in range(lanes + 1)]
    longest = short + (more > 0)
    return [[starts[n] + i for n in range(lanes) if starts[n] + i < starts[n + 1]] for i in range(longest)]


def default_levels(form: int) -> list[list[int]]:
    """Return the default rows of 33 levels; the last level is the escape's."""
    result = []
    for digits in (OFFSET if form == 1 else CENTRED) + SHIFTED:
        escape, *bins = bytes.fromhex(digits)
        result.append(bins + [NONE] * (BINS - len(bins)) + [escape])
    return result


def weight(level: int) -> int:
    """Return the weight of a level, ⌊2^20 · 2^(-level/16)⌋ as the page defines it."""
    return 0 if level == NONE else POWERS[level % 16] >> level // 16


def frequencies(levels: list[int]) -> list[int]:
    """Return the frequencies of 49 symbols, which sum to 4096."""
    whole = sum(weight(level) for level in levels)
    result = []
    for b, (level, width) in enumerate(zip(levels, WIDTHS, strict=True)):
        w = weight(level)
        f = max(1, ONE * w // (whole * width)) if w else int(b == BINS)
        result += [f] * width
    result[result.index(max(result))] += ONE - sum(result)
    return result


def half_octave(mean: int) -> int:
    """Return the index of a mean, in 1024ths, on a scale of two steps per octave."""
    octave = (mean + 4).bit_length() - 1
    return 2 * (octave - 2) + ((mean + 4) >> (octave - 1) & 1)


@dataclass
class Lane:
    """State of a lane: it predicts the next value from the previous ones."""

    fast: int
    slow: int
    stays: list[int]
    alike: int = 0
    sign: int = 0

    @classmethod
    def begin(cls, start: int) -> Lane:
        """Return the state of a lane before its first value."""
        mean = ((2 + start % 2) << start // 2 + 1) - 4
        return cls(mean, mean, [1 << 15, 1 << 15])

    def context(self) -> tuple[int, int]:
        """Return the row of the tables, and the shift: the number of low bits that are not modelled."""
        step = half_octave((self.fast + self.slow) >> 1)
        return (step, 0) if step < 24 else (24 + step % 2, step // 2 - 11)

    def sign_frequency(self) -> int:
        """Return the frequency, of 4096, with which the sign repeats the last one."""
        return max(32, min(self.stays[self.alike] >> 4, ONE - 32))

    def learn(self, k: int, sign: int | None) -> None:
        """Update the state with a value; its sign is None if it has none."""
        k = min(k, MAX_K)
        self.fast += (k << 7) - (self.fast + 7 >> 3)
        self.slow += (k << 5) - (self.slow + 31 >> 5)
        if sign is None:
            return
        q = self.stays[self.alike]
        same = sign == self.sign
        self.stays[self.alike] = q + (65_536 - q >> 6) if same else q - (q >> 6)
        self.alike, self.sign = int(same), sign
