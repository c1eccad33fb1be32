"""Values of coefficients: maps, and the value codecs that transforms.py does not combine with transforms."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from formats.reference import (
    DExpFit,
    ErrorBounded,
    Mean,
    OffsetFloat,
    PolyFit,
    Record,
    Row,
    SketchML,
    TernGrad,
    ThreeLC,
    assemble,
    write,
)
from formats.reference.floats import BY_NAME, pack_elements
from formats.reference.transform.coefficients import COMPONENTS, RFFT, coefficient_count, tolerance
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.map.packed import write_packed
from formats.reference.writing.protocols import ValueWriter
from formats.reference.writing.transform.coefficients import write_lengths
from formats.vector_cases.case import Case, bad, spread, valid, values_for
from formats.vector_cases.curves import POLY, raw_section
from formats.vector_cases.deflate import stored
from formats.vector_cases.transforms import NAMED, TRANSFORM, spectrum, transformed

VALUE: dict[str, ValueWriter] = {
    **{"offset-float": OffsetFloat(6), "polyfit": PolyFit(4, 2), "dexpfit": DExpFit()},
    **{"terngrad": TernGrad(None), "3lc": ThreeLC(1.0), "sketchml": SketchML(4)},
    **{"error-bounded": ErrorBounded(0.05), "mean": Mean()},
}


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _codecs()
    yield from _compressed()
    yield from _maps()
    yield from _bad_maps()
    yield from _limits()


def _codecs() -> Iterator[Case]:
    for domain, name in NAMED.items():
        for value, codec in VALUE.items():
            for dtype in ("float32", "float16", "float64"):
                some = spectrum(domain, 40, spread(9, coefficient_count(domain, 40), 5), dtype)
                about = f"{value} of {dtype} elements' coefficients."
                yield transformed(f"{name}-{value}-{dtype}", about, [some], "bitmap", codec)


def _entry(domain: int, r: int, value: int, section: bytes, map_section: bytes = b"", map: int = 0) -> bytes:
    """Return a container of a tensor of four elements, of which the first r coefficients are present."""
    d = coefficient_count(domain, 4)
    index = bytes([(1 << r) - 1]) if r < d else b""
    row = Row(0, 0, d, r, domain << 4 | 1, 2, value, index, section, map_section, map)
    return assemble([row], write_extension_block([Record(TRANSFORM, 1, write_lengths([(0, 4)]))]))


def _compressed() -> Iterator[Case]:
    for domain, name in NAMED.items():
        values = values_for(2 * COMPONENTS[domain], "float32")
        far = tolerance(BY_NAME["float32"], values) + 1e-6
        about = "Two coefficients, compressed: each component is a value."
        yield valid(f"{name}-deflate", about, _entry(domain, 2, 6, b"\0" + stored(values)), within=[far])


def _maps() -> Iterator[Case]:
    for domain, name in NAMED.items():
        count = 2 * COMPONENTS[domain]
        values = values_for(count, "float32", 60)
        positions = [2, 0, 3, 1] if domain == RFFT else [1, 0]
        far = tolerance(BY_NAME["float32"], values) + 1e-6
        about = "A map that moves every component, across coefficients and between real and imaginary parts."
        if domain != RFFT:
            about = "A map that exchanges two coefficients."
        section = bytes(4) + values
        data = _entry(domain, 2, POLY, section, write_packed(positions), 1)
        yield valid(f"{name}-map", about, data, within=[far])


def _bad_maps() -> Iterator[Case]:
    section = raw_section(4)
    kind, code = "Malformed", "map-length"
    about = "Four components need a map of one byte."
    yield bad("rfft-map-length", about, kind, code, _entry(RFFT, 2, POLY, section, b"", 1))
    about = "A map of two bytes for four components."
    yield bad("rfft-map-length-long", about, kind, code, _entry(RFFT, 2, POLY, section, bytes(2), 1))
    about = "One bin has two components, and a map of one byte."
    one = raw_section(2)
    yield bad("rfft-map-length-r1", about, kind, code, _entry(RFFT, 1, POLY, one, b"", 1))
    about = "Two bins, whose map permutes two numbers of four."
    twice = write_packed([0, 1, 0, 1])
    yield bad(
        "rfft-map-permutation", about, "Invalid", "map-permutation", _entry(RFFT, 2, POLY, section, twice, 1)
    )
    about = (
        "A component that binary16 elements do not hold is NaN in binary32: the value codec reads binary32."
    )
    broken = bytes(4) + pack_elements([0x7FC00000, 0, 0, 0], 4)
    good = write_packed([0, 1, 2, 3])
    yield bad("rfft-polyfit-nan", about, "Invalid", "polyfit-value", _entry(RFFT, 2, POLY, broken, good, 1))
    about = "binary16 numbers where the coefficients of a float16 tensor are binary32."
    row = Row(0, 0, 4, 2, 0x22, 2, POLY, b"\3", bytes(4) + struct.pack("<2e", 1, 2), b"\2", 1)
    record = Record(TRANSFORM, 1, write_lengths([(0, 4)]))
    data = assemble([row], write_extension_block([record]))
    yield bad("dct-polyfit-length-float16", about, "Malformed", "polyfit-length", data)


def _limits() -> Iterator[Case]:
    for domain, name in NAMED.items():
        numbers = COMPONENTS[domain] * coefficient_count(domain, 24)
        data = write([spectrum(domain, 24, [])], names=False)
        about = "Absent coefficients count as elements, too."
        limits = {"max_dense": numbers - 1}
        yield bad(f"{name}-max-dense-absent", about, "LimitExceeded", "max-dense", data, limits=limits)
