"""Tests of hostile containers of transformed tensors: library and reference decoder agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import fft

import wirecodec as wc
from formats import conformance, reference
from formats.reference import Record, Row, assemble
from formats.reference.floats import BY_NAME
from formats.reference.transform.coefficients import COMPONENTS, coefficient_count, stored_type, tolerance
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.transform.coefficients import write_lengths
from formats.vector_cases.transforms import INDEX, VALUE
from tests.fuzz.judge import library, outcome
from wirecodec.element_types import dtype_named

ROUNDING = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53}


def one_coefficient(domain: int, n: int, *, present: bool = True, length: int | None = None) -> bytes:
    """Write a container with at most one coefficient and a valid or an invalid length record."""
    rows = []
    most = 2**24 // COMPONENTS[domain]
    for base in range(0, coefficient_count(domain, n), most):
        d = min(most, coefficient_count(domain, n) - base)
        row = Row(0, base, d, 0, domain << 4 | 1, 1, 1)
        if present and base == 0:
            row.r, row.index_section = 1, bytes(2 if d <= 2**16 else 4)
            row.value_section = b"\0\0\x80?\0\0\0\0"[: 4 * COMPONENTS[domain]]
        rows.append(row)
    body = write_lengths([(0, n if length is None else length)])
    return assemble(rows, write_extension_block([Record(4, 1, body)]))


def error_code(data: bytes, limits: wc.DecodeLimits | None = None) -> str:
    with pytest.raises(wc.WireError) as caught:
        wc.decode(data, limits=limits)
    return str(caught.value.code)


@pytest.mark.parametrize("domain", [1, 2])
def test_small_containers_do_not_cause_large_transforms(domain: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wc.decode(one_coefficient(domain, 1000)).nnz == 1000
    for forward in ("irfft", "idct"):
        monkeypatch.setattr(fft, forward, lambda *a, **k: pytest.fail("transformed"))
    assert error_code(one_coefficient(domain, 10**6)) == "max-expansion"
    assert error_code(one_coefficient(domain, 2**28 + 8)) == "max-elements"
    assert error_code(one_coefficient(domain, 2**32 + 8, present=False)) == "max-dense"
    assert error_code(one_coefficient(domain, 1000), wc.DecodeLimits(max_elements=999)) == "max-elements"
    assert error_code(one_coefficient(domain, 1000), wc.DecodeLimits(max_dense=999)) == "max-dense"
    for length in (0, 960, 972, 1001, 2**63, 2**64 - 1):
        assert error_code(one_coefficient(domain, 1000, length=length)) == "transform"


@pytest.mark.parametrize("name", ["rfft", "dct"])
def test_every_prefix_and_every_bit_flip(name: str) -> None:
    x = np.arange(9, dtype=np.float32)
    blob = wc.encode(x, f"{name} | topk(k=3) | rice | raw", tag=b"t").tobytes()
    for n in range(len(blob)):
        with pytest.raises(wc.Truncated):
            wc.decode(blob[:n])
    for bit in range(8 * len(blob)):
        broken = bytearray(blob)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(wc.WireError):
            wc.decode(bytes(broken))
        sealed = reference.reseal(bytes(broken))
        found, expected = outcome(library, sealed, {}), outcome(conformance.reference, sealed, {})
        assert isinstance(found[0], bytes) == isinstance(expected[0], bytes), bit
        if not isinstance(found[0], bytes):
            assert found == expected, bit


@pytest.mark.usefixtures("own_registry")
def test_registered_codecs_receive_real_coefficients() -> None:
    @dataclass(frozen=True)
    class Plain:
        name: ClassVar[str] = "plain"
        wire_id: ClassVar[int] = 0x95
        carries_nonfinite: ClassVar[bool] = True

        def encode(self, values: Any, stream: int) -> Any:
            assert values.dtype == np.float32
            return values.tobytes()

        @classmethod
        def decode(cls, section: Any, r: int, dtype: Any, limits: Any) -> Any:
            assert dtype == np.float32
            return np.repeat(section.view(np.float32), 2)[::2]

    wc.register(Plain)
    x = np.arange(20, dtype=np.float16)
    for name in ("rfft", "dct"):
        decoded = wc.decode(wc.encode(x, f"{name} | all | rice | plain"))
        assert np.allclose(decoded.values.astype(np.float32), x, atol=0.01)
        broken = bytearray(wc.encode(x, f"{name} | all | rice | plain"))
        first = len(broken) - wc.inspect(broken).entries[0].value_bytes
        broken[first : first + 4] = np.float32(np.nan).tobytes()
        assert error_code(reference.reseal(bytes(broken))) == "transform-value"


def check_agreement(found: Any, expected: Any, spectra: dict[str, float]) -> None:
    """Check that both raise the same error, or that tensors agree within the accuracy of the spec."""
    if not isinstance(expected[0], bytes):
        assert found == expected
        return
    assert found[0] == expected[0]
    for (*head, values), (*wanted_head, wanted_values) in zip(found[1], expected[1], strict=True):
        assert head == wanted_head
        if values == wanted_values:
            continue
        name, dtype = str(head[0]), dtype_named(head[1])
        a, b = (np.frombuffer(v, dtype).astype(np.float64) for v in (values, wanted_values))
        near = spectra[name] + 2 * ROUNDING[dtype.name] * np.abs(b).max()
        assert np.abs(a - b).max() <= near


@st.composite
def containers(draw: st.DrawFn) -> tuple[bytes, dict[str, float]]:
    """Draw a container of transformed and plain tensors, and the accuracy of each."""
    tensors: list[Any] = []
    near = {}
    index, value = [], []
    for n in range(draw(st.integers(1, 3))):
        size, domain = draw(st.integers(0, 160)), draw(st.integers(0, 2))
        dtype = draw(st.sampled_from(["float32", "float16", "bfloat16", "float64"]))
        d = coefficient_count(domain, size) if domain else size
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        indices = np.flatnonzero(rng.random(d) < draw(st.sampled_from([0, 0.1, 0.5, 1]))).tolist()
        stored = stored_type(domain, BY_NAME[dtype])
        numbers = rng.laplace(size=len(indices) * (2 if domain == 1 else 1)) * 10.0 ** draw(
            st.integers(-30, 4)
        )
        data = np.clip(numbers, -6e4, 6e4).astype(dtype_named(stored.name)).tobytes()  # float16 holds these
        name = f"{draw(st.sampled_from('abz'))}{n}"
        if domain:
            tensors.append(reference.Spectrum(name, dtype, (size,), indices, data, domain))
        else:
            tensors.append(reference.Tensor(name, dtype, (size,), indices, data))
        near[name] = 4 * tolerance(stored, data)
        index.append(draw(st.sampled_from(list(INDEX.values()))))
        value.append(draw(st.sampled_from([reference.Raw(), VALUE["qsgd"], VALUE["sign-scale"]])))
    order = sorted(range(len(tensors)), key=lambda i: tensors[i].name)
    data = reference.write(
        tensors, [index[i] for i in order], [value[i] for i in order], seed=draw(st.integers(0, 9))
    )
    return data, near


some = settings(max_examples=120, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@some
@given(containers())
def test_library_and_reference_decode_alike(container: tuple[bytes, dict[str, float]]) -> None:
    data, near = container
    found = outcome(library, data, {})
    assert isinstance(found[0], bytes), found
    check_agreement(found, outcome(conformance.reference, data, {}), near)


@some
@given(containers(), st.data())
def test_library_and_reference_raise_alike(
    container: tuple[bytes, dict[str, float]], choose: st.DataObject
) -> None:
    """Bytes are changed under valid checksums: both raise the same error, or elements agree."""
    data, _ = container
    broken = bytearray(data)
    for _ in range(choose.draw(st.integers(1, 2))):
        at = choose.draw(st.integers(24, len(broken) - 1))
        broken[at] = choose.draw(st.sampled_from([0, 1, 2, 0x11, 0x21, 0x7F, 0x80, 0xFF, broken[at] ^ 0x30]))
    sealed = reference.reseal(bytes(broken))
    found, expected = outcome(library, sealed, {}), outcome(conformance.reference, sealed, {})
    assert isinstance(found[0], bytes) == isinstance(expected[0], bytes), (found[:2], expected[:2])
    if not isinstance(found[0], bytes):
        assert found == expected
        return
    assert [t[:4] for t in found[1]] == [t[:4] for t in expected[1]]
    for (*_, dtype, _shape, _indices, a), (*_, b) in zip(found[1], expected[1], strict=True):
        with np.errstate(invalid="ignore"):  # plain tensors may contain signalling NaN
            one, other = (np.frombuffer(v, dtype_named(dtype)).astype(np.float64) for v in (a, b))
        largest = float(np.abs(other).max(initial=0))
        if largest < ml_dtypes.finfo(dtype_named(dtype)).max:  # clamped elements may differ
            near = (2 * ROUNDING[dtype] + 2.0**-16) * largest * math.sqrt(other.size)
            assert np.abs(one - other).max(initial=0) <= near
