"""Patches make the new state of the old one, bit by bit, and change nothing else."""

from __future__ import annotations

import struct
import warnings
import zlib
from array import array
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.patch.weights import TYPES, bits_of, copy, is_equal, make_state, random_pair, train
from wirecodec.arrays import Array
from wirecodec.element_types import name_of
from wirecodec.kernels.cpu.patch import digest as kernels
from wirecodec.patch import prepared, states

BF16 = np.dtype(ml_dtypes.bfloat16)
MODES = ("read", "unread")


def apply_to_copy(patch: Any, old: dict[str, Any], **options: Any) -> dict[str, Any]:
    state = copy(old)
    assert wc.apply(patch, state, **options) is state
    return state


@pytest.mark.parametrize("base", MODES)
@pytest.mark.parametrize("dtype", TYPES, ids=name_of)
@pytest.mark.parametrize(("size", "share"), [(1, 1.0), (7, 0.5), (1000, 0.02), (3001, 0.4), (5000, 1.0)])
def test_every_type(dtype: Any, size: int, share: float, base: str) -> None:
    old, new = random_pair(dtype, (size,), share)
    patch = wc.diff({"w": old}, {"w": new}, base=base)
    state = apply_to_copy(patch, {"w": old})
    assert is_equal(state, {"w": new})
    assert patch.size <= new.nbytes + 400  # never more than a whole tensor


@pytest.mark.parametrize("base", MODES)
def test_shapes_names_and_types(base: str) -> None:
    """Tensors that are new, gone, renamed, reshaped, of another type, 0-d, empty."""
    old = {
        "gone": np.arange(3, dtype="f4"),
        "reshaped": np.arange(6, dtype="f4").reshape(2, 3),
        "retyped": np.arange(4, dtype="f4"),
        "scalar": np.array(1.5, "f8"),
        "empty": np.empty((0, 3), "f4"),
        "same": np.arange(5),
        "old name": np.arange(7, dtype="i2"),
        "é": np.zeros((2, 2), BF16),
    }
    new: dict[str, Any] = {
        "new": np.arange(4, dtype=BF16).reshape(2, 2),
        "reshaped": np.arange(6, dtype="f4").reshape(3, 2),
        "retyped": np.arange(4, dtype="i4"),
        "scalar": np.array(-0.0, "f8"),
        "empty": np.empty((3, 0), "f4"),
        "same": np.arange(5),
        "new name": np.arange(7, dtype="i2"),
        "é": np.array([[0, -0.0], [np.nan, 1]], BF16),
        "new scalar": np.array(True),
    }
    patch = wc.diff(old, new, base=base)
    state = apply_to_copy(patch, old)
    assert is_equal(state, new)
    wc.apply(patch, state)
    assert is_equal(state, new)


@pytest.mark.parametrize("base", MODES)
@pytest.mark.parametrize("dtype", ["float32", BF16, "float16", "float64"], ids=str)
def test_bits_are_compared_not_numbers(dtype: Any, base: str) -> None:
    width = np.dtype(dtype).itemsize
    word = f"u{width}"
    top = 1 << 8 * width - 1
    nan = np.array([np.nan], dtype).view(word)[0]
    old = np.array([0, top, nan, nan, 1, top + 1, 5], word)
    new = np.array([top, 0, nan, nan ^ 1, top + 1, 1, 0], word)
    a, b = {"w": old.view(dtype)}, {"w": new.view(dtype)}
    assert is_equal(apply_to_copy(wc.diff(a, b, base=base), a), b)


def test_sizes_of_a_step_of_training() -> None:
    """The bound is that of positions and differences given the old exponent."""
    old = make_state(layers=8)
    new = train(old, 1e-6)
    o, n = (np.concatenate([x[name].reshape(-1).view("u2") for name in sorted(x)]) for x in (old, new))
    changed = o != n
    exponents, k = (o >> 7) & 0xFF, int(changed.sum())
    order = [np.where(x.view("i2") < 0, ~(x & 0x7FFF).astype("i4"), x & 0x7FFF) for x in (o, n)]
    steps = (order[1] - order[0])[changed]
    bound = 0.0
    for e in np.unique(exponents):
        here = exponents == e
        total, some = here.sum(), (here & changed).sum()
        for part in (some, total - some):
            bound += part * np.log2(total / part) if part else 0
        _, counts = np.unique(steps[exponents[changed] == e], return_counts=True)
        bound += (counts * np.log2(some / counts)).sum()
    patch = wc.diff(old, new)
    overhead = 64 * len(old)  # bytes for names, sizes and digests
    assert bound / k > 4
    assert 8 * patch.size <= 1.03 * bound + 8 * overhead
    assert wc.diff(old, new, base="unread").size < 1.7 * patch.size


@pytest.mark.parametrize("base", MODES)
def test_whole_rows_of_a_table_take_few_bits_for_their_positions(base: str) -> None:
    old = {"table": np.random.default_rng(5).normal(0, 0.05, (20_000, 64)).astype(BF16)}
    new = copy(old)
    new["table"].view(np.uint16)[::97] += 1
    patch = wc.diff(old, new, base=base)
    assert is_equal(apply_to_copy(patch, old), new)
    assert 8 * patch.size < 2.5 * new["table"][::97].size  # of which a bit is the sign


@pytest.mark.parametrize("rate", [1e-6, 1e-4, 1e-2])
def test_a_dense_fine_tune_takes_no_more_than_planes_of_the_difference(rate: float) -> None:
    zstandard = pytest.importorskip("zstandard")
    old = make_state(layers=2)
    new = train(old, rate, steps=40)
    o, n = (np.concatenate([x[name].reshape(-1).view("u2") for name in old]) for x in (old, new))
    order = [np.where(x < 2**15, x, 3 * 2**15 - 1 - x.astype("i4")).astype("u2") for x in (o, n)]
    step = (order[1] - order[0]).view("i2").astype("i4")
    differences = (n - o, n ^ o, np.where(step < 0, -2 * step - 1, 2 * step).astype("u2"))
    planes = [np.ascontiguousarray(x.view("u1").reshape(-1, 2).T).tobytes() for x in differences]
    least = min(len(zstandard.ZstdCompressor(level=3).compress(x)) for x in planes)
    assert wc.diff(old, new).size <= least + 64 * len(old)


def test_a_state_that_did_not_change_takes_few_bytes() -> None:
    state = make_state()
    patch = wc.diff(state, copy(state))
    assert patch.size <= 200
    assert is_equal(apply_to_copy(patch, state), state)
    state["blocks.0.norm.weight"][0] = 7
    with pytest.raises(wc.SchemaMismatch, match=r"^base"):
        wc.apply(patch, state)


@pytest.mark.parametrize("base", MODES)
def test_a_second_application_changes_nothing(base: str) -> None:
    old = make_state()
    new = train(old, 1e-5)
    patch = wc.diff(old, new, base=base)
    state = apply_to_copy(patch, old)
    for _ in range(2):
        wc.apply(patch, state)
        assert is_equal(state, new)


@pytest.mark.parametrize("base", MODES)
def test_other_states_are_refused_before_the_first_write(base: str) -> None:
    old = make_state()
    new = train(old, 1e-5)
    later = train(new, 1e-5, seed=1)
    patch, second = wc.diff(old, new, base=base), wc.diff(new, later, base=base)
    names = list(old)
    place = tuple(np.argwhere(old[names[0]].view("u2") != new[names[0]].view("u2"))[0])
    wrong = copy(old)
    wrong[names[0]].view("u2")[place] ^= 0x100
    swapped = copy(old) | {names[0]: old[names[1]].copy(), names[1]: old[names[0]].copy()}
    renamed = {name + "x": x for name, x in copy(old).items()}
    reshaped = copy(old) | {names[0]: old[names[0]].reshape(-1).copy()}
    retyped = copy(old) | {names[0]: old[names[0]].view("i2").copy()}
    less = {name: x for name, x in copy(old).items() if name != names[0]}
    for state in (wrong, swapped, renamed, reshaped, retyped, less, {}):
        before = copy(state)
        with pytest.raises(wc.SchemaMismatch):
            wc.apply(patch, state)
        assert is_equal(state, before)
    state = copy(old)
    with pytest.raises(wc.SchemaMismatch, match="patches in their order"):
        wc.apply(second, state)
    assert is_equal(state, old)


def test_an_unchanged_tensor_is_part_of_the_base() -> None:
    old = make_state()
    new = copy(old)
    new["blocks.0.q.weight"].view("u2")[3, 3] ^= 1
    patch = wc.diff(old, new)
    more = copy(old) | {"more": np.zeros(2)}
    other = copy(old)
    other["blocks.1.k.weight"].view("u2")[0, 0] ^= 1
    for state in (more, other):
        with pytest.raises(wc.SchemaMismatch):
            wc.apply(patch, state)
    some = {"blocks.0.q.weight": old["blocks.0.q.weight"].copy(), "more": np.zeros(2)}
    assert np.array_equal(
        bits_of(wc.apply(patch, some, partial=True)["blocks.0.q.weight"]), bits_of(new["blocks.0.q.weight"])
    )


def repair(blob: Array) -> Array:
    """Return a container with right checksums."""
    data = bytearray(blob.tobytes())
    n, flags = struct.unpack_from("<I", data, 8)[0], struct.unpack_from("<H", data, 6)[0]
    stop = 24 + 40 * n
    end = stop + (struct.unpack_from("<I", data, stop)[0] if flags & 1 else 0)
    if end > len(data):
        return np.frombuffer(bytes(data), np.uint8)
    at = end
    for entry in range(n):
        row = 24 + 40 * entry
        size = sum((length + 7) & -8 for length in struct.unpack_from("<III", data, row + 24))
        struct.pack_into("<I", data, row + 4, zlib.crc32(data[at : at + size]))
        at += size
    struct.pack_into("<I", data, 12, zlib.crc32(data[:12] + data[16:end]))
    return np.frombuffer(bytes(data), np.uint8)


@pytest.mark.parametrize("base", MODES)
def test_damage_is_an_error_or_makes_no_other_state(base: str) -> None:
    """Also with right checksums: the digests of the target tell."""
    old = {"a": make_state(layers=1, width=32)["blocks.0.q.weight"], "b": np.arange(9, dtype="f4")}
    new = train({"a": old["a"]}, 1e-4) | {"b": old["b"][::-1].copy(), "c": np.arange(3)}
    blob = wc.diff(old, new, base=base)
    rng, errors = np.random.default_rng(0), 0
    for trial in range(600):
        data = blob.copy()
        for _ in range(1 + trial % 3):
            data[rng.integers(24, data.size)] ^= 1 << rng.integers(8)
        if trial % 7 == 0:
            data = data[: rng.integers(data.size)]
        damaged = repair(data) if trial % 2 and data.size == blob.size else data
        state = copy(old)
        try:
            wc.apply(damaged, state)
        except wc.WireError:
            errors += 1
            assert is_equal(state, old)
        else:  # a name or a digest of a new tensor may be another one
            assert all(
                np.array_equal(bits_of(state[name]), bits_of(new[name]))
                for name in ("a", "b")
                if name in state
            )
    assert errors > 500


def test_bytes_without_a_patch_are_refused() -> None:
    state = {"w": np.zeros(3, "f4")}
    with pytest.raises(wc.Unsupported, match="not a patch of weights"):
        wc.apply(wc.encode_many(state), copy(state))
    with pytest.raises(wc.Truncated):
        wc.apply(b"", copy(state))
    patch = wc.diff(state, {"w": np.ones(3, "f4")})
    for decode in (wc.decode_many, wc.decode, lambda blob: wc.decode_add(blob, state)):
        with pytest.raises(wc.Unsupported, match=r"wirecodec\.apply"):
            decode(patch)
    with pytest.raises(wc.LimitExceeded):
        wc.apply(patch, copy(state), limits=wc.DecodeLimits(max_bytes=32))


@pytest.mark.parametrize("base", MODES)
def test_merged_patches(base: str) -> None:
    path = [make_state()]
    for seed in range(3):
        path.append(train(path[-1], 1e-5, seed=seed))
    path[2] |= {"new": np.arange(5, dtype="f4")}
    path[3] = {name: x for name, x in path[3].items() if name != "blocks.1.k.weight"} | {
        "new": path[2]["new"]
    }
    patches = [wc.diff(a, b, base=base) for a, b in pairwise(path)]
    assert is_equal(apply_to_copy(wc.merge(patches[:2]), path[0]), path[2])
    for merged in (wc.merge(patches), wc.merge(patches, path[0])):
        state = apply_to_copy(merged, path[0])
        assert is_equal(state, path[3])
        wc.apply(merged, state)
        assert is_equal(state, path[3])
    assert wc.merge(patches, path[0]).size <= wc.diff(path[0], path[3]).size
    wrong = train(path[0], 1e-5, seed=9)
    before = copy(wrong)
    with pytest.raises(wc.SchemaMismatch):
        wc.apply(wc.merge(patches), wrong)
    assert is_equal(wrong, before)
    with pytest.raises(wc.SchemaMismatch):
        wc.merge(patches[::-1], path[0])
    with pytest.raises(wc.EncodeError, match="no patch"):
        wc.merge([])


@pytest.mark.parametrize("base", MODES)
def test_an_exception_in_a_commit_leaves_the_old_state(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any write: of memory of each type, of a tensor that is not contiguous, of a new tensor."""
    old = make_state(layers=1) | {"strided": np.arange(40, dtype="f4")[::2], "gone": np.zeros(2)}
    new = train({k: v for k, v in old.items() if v.dtype == BF16}, 1e-5)
    new |= {"strided": old["strided"] + (np.arange(20) % 3 == 0), "z": np.ones(3)}
    rng = np.random.default_rng(0)
    for kind in ("f4", "f8", "u1"):  # tensors of one type are written together
        old[kind] = rng.integers(0, 200, 3000).astype(kind)
        new[kind] = old[kind] + (rng.random(3000) < 0.1).astype(kind)
    old["dense"] = rng.random(300)
    new["dense"] = old["dense"][::-1].copy()  # written last, where nothing fails
    patch = wc.diff(old, new, base=base)
    calls = 0

    def wrap(function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == fails_at:
                raise MemoryError
            return function(*arguments)

        return call

    monkeypatch.setattr(kernels, "exchange", wrap(kernels.exchange))
    for name in ("write_elements", "make_tensor"):
        monkeypatch.setattr(prepared, name, wrap(getattr(prepared, name)))
    fails_at, failed = 1, 0
    while True:
        calls, state = 0, {name: x.copy() for name, x in old.items()}
        state["strided"] = np.repeat(old["strided"], 2)[::2]
        try:
            wc.apply(patch, state)
        except MemoryError:
            failed += 1
            assert is_equal(state, old)
        else:
            break
        fails_at += 1
    assert failed >= 6
    assert is_equal(state, new)


def test_a_half_written_state_is_completed() -> None:
    """Tensors of different entries: some have the new bits."""
    old = {"a": np.arange(100, dtype="f4"), "b": np.arange(100, dtype="f8")}
    new = {name: x + (np.arange(100) % 9 == 0) for name, x in old.items()}
    patch = wc.diff(old, new)
    state = copy(old) | {"a": new["a"].copy()}
    with pytest.warns(RuntimeWarning, match="half-written"):
        wc.apply(patch, state)
    assert is_equal(state, new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wc.apply(patch, state)


def test_read_only_and_overlapping_tensors_are_refused() -> None:
    old = {"a": np.arange(8, dtype="f4"), "b": np.zeros(4, "f4")}
    new = {"a": old["a"][::-1].copy(), "b": np.ones(4, "f4")}
    patch = wc.diff(old, new)
    locked = copy(old)
    locked["b"].flags.writeable = False
    broadcast = copy(old) | {"b": np.broadcast_to(np.zeros(1, "f4"), 4)}
    for state in (locked, broadcast):
        with pytest.raises(ValueError, match=r"read-only|share memory"):
            wc.apply(patch, state)
        assert np.array_equal(state["a"], old["a"])


def test_arguments_are_checked() -> None:
    state = {"w": np.zeros(2, "f4")}
    with pytest.raises(wc.EncodeError, match="base is 'some'"):
        wc.diff(state, state, base="some")
    with pytest.raises(wc.EncodeError, match="level is 99"):
        wc.diff(state, state, level=99)
    with pytest.raises(TypeError, match="mapping of names"):
        wc.diff([1], state)
    with pytest.raises(wc.EncodeError, match="'w'"):
        wc.diff({"w": np.array(["a"])}, state)
    with pytest.raises(wc.EncodeError, match="name is 3"):
        wc.diff({3: state["w"]}, state)  # type: ignore[dict-item]


def test_chunks_of_large_tensors() -> None:
    """A tensor of more than 2^24 elements has several entries."""
    size = 2**24 + 40
    old = np.arange(size, dtype=np.uint8)
    new = old.copy()
    for places in ([0, 5, 2**24 - 1, 2**24, size - 1], [size - 1]):
        new[places] += 1
        for base in MODES:
            state = {"w": old.copy()}
            wc.apply(wc.diff({"w": old}, {"w": new}, base=base), state)
            assert np.array_equal(state["w"], new)
        old = new.copy()


def test_bits_of_float_types_have_their_fraction() -> None:
    for kind in TYPES:
        if kind.kind == "f" or kind.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            assert states.kind_of(kind).shifts == (ml_dtypes.finfo(kind).nmant,)


@pytest.mark.parametrize("base", ["read", "unread"])
def test_a_tensor_of_more_than_2_to_the_31_elements(base: str) -> None:
    """Its pages are those of zeros, so that it takes little memory."""
    old, new = ({"w": np.zeros(2**31 + 5, np.uint8)} for _ in range(2))
    places = [0, 2**24 - 1, 2**24, 2**31 - 1, 2**31, 2**31 + 4]
    new["w"][places] = range(1, 7)
    patch = wc.diff(old, new, base=base)
    assert patch.nbytes < 10_000
    wc.apply(patch, old)
    assert old["w"][places].tolist() == [1, 2, 3, 4, 5, 6]
    assert sum(int(np.count_nonzero(part)) for part in np.array_split(old["w"], 64)) == 6


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8", ">i2", ">u4", ">i8", ">c8", ">c16"])
@pytest.mark.parametrize("shape", [(), (40,), (5, 8)], ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "strided", "Fortran"])
@pytest.mark.parametrize("share", [0.1, 1.0])
def test_arrays_keep_their_byte_order(dtype: str, shape: Any, layout: str, share: float) -> None:
    rng = np.random.default_rng(3)
    old, new = np.empty(shape, dtype), np.empty(shape, dtype)
    old[...] = rng.integers(1, 99, shape)
    new[...] = np.where(rng.random(shape) < share, old + 1, old)
    patch = wc.diff({"w": old}, {"w": new})
    for order in (">", "<"):
        space = np.empty((*shape, 2), old.dtype.newbyteorder(order))
        given = np.array(space[..., 0], order="F" if layout == "Fortran" else "C")
        given = space[..., 0] if layout == "strided" and shape else given
        given[...] = old
        state = {"w": given}
        wc.apply(patch, state)
        assert state["w"] is given
        assert np.array_equal(given, new)


@pytest.mark.parametrize("shape", [(2**22 + 5,), (3000, 2000)])
def test_constant_tensors_are_within_the_default_limits(shape: tuple[int, ...]) -> None:
    """As those that an adapter begins with; Zstandard makes a byte of more than 4,096 of their elements."""
    zeros = np.zeros(shape, np.int8)
    noise = np.random.default_rng(1).integers(-128, 128, shape, np.int8)
    for old in ({}, {"w": zeros[:1]}, {"w": noise}):
        patch = wc.diff(old, {"w": zeros})
        assert patch.nbytes < zeros.size // 4_000
        assert not wc.apply(patch, {name: x.copy() for name, x in old.items()})["w"].any()


class Foreign:
    """A tensor that can be read through DLPack, and not written."""

    def __init__(self) -> None:
        self.data = np.zeros(36, "f4")

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.data.__dlpack_device__()


class Subclass(np.ndarray):
    """As np.matrix, whose parts have other shapes."""


KINDS: dict[str, Any] = {
    "array": lambda: array("f", bytes(144)),
    "subclass": lambda: np.zeros(36, "f4").view(Subclass),
    "memoryview": lambda: memoryview(bytearray(144)).cast("f"),
    "DLPack": Foreign,
}


@pytest.mark.parametrize("chain", [False, True])
@pytest.mark.parametrize("base", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_that_cannot_be_written_is_found_before_the_first_write(
    kind: str, base: str, chain: bool
) -> None:
    last = KINDS[kind]()
    states = [{"a": np.full((6, 6), n, "f4"), "z": np.full(36, n, "f4")} for n in range(3)]
    patches = [wc.diff(a, b, base=base) for a, b in pairwise(states[: 3 if chain else 2])]
    given = np.zeros((12, 18), "f4")
    with pytest.raises(ValueError, match="'z' is of type"):
        wc.apply(np.concatenate(patches), {"a": given[::2, ::3], "z": last})
    assert not given.any()


class Fixed(dict[str, Any]):
    """A mapping that takes no other objects."""

    def __setitem__(self, name: str, value: Any) -> None:
        raise KeyError(name)


def test_a_mapping_that_refuses_a_tensor_gets_its_elements_back() -> None:
    old = {"a": np.zeros((6, 6), "f4"), "b": np.zeros(99, "f4"), "z": np.zeros(9, "f4")}
    new = {"a": old["a"] + 1, "b": old["b"].copy(), "z": np.ones(3, "f4")}
    new["b"][4] = 1
    given = np.zeros((12, 18), "f4")
    state = Fixed(a=given[::2, ::3], b=np.zeros(99, "f4"), z=np.zeros(9, "f4"))
    with pytest.raises(KeyError):
        wc.apply(wc.diff(old, new), state)
    assert not any(x.any() for x in state.values())


@pytest.mark.parametrize(("base", "partial"), [("unread", False), ("slices", False), ("read", True)])
def test_a_name_that_a_patch_does_not_know_may_be_a_second_one_alone(base: str, partial: bool) -> None:
    """Checkpoints lack second names of tied weights. A part of a tensor is no such name."""
    memory = np.zeros(40, "f4")
    patch = wc.diff({"w": memory}, {"w": memory + 1}, base=base)
    tied = {"w": memory.copy()}
    tied["head"] = tied["w"].view()
    assert wc.apply(patch, tied, partial=partial)["head"].all()
    for part in (memory[:20], memory[::2], memory[::-1]):
        with pytest.raises(ValueError, match="share memory"):
            wc.apply(patch, {"w": memory, "part": part}, partial=partial)
        assert not memory.any()
