"""Patches of weights: the record ``base``, digests, and how a patch is applied (spec/patch.md).

``apply`` makes all checks in the page's order, and then returns the new state. It changes nothing that it is
given. index/by_class.py, value/steps.py and rans.py have the codecs that are told the base.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from formats.reference.container import Header, read_header, split_entry
from formats.reference.element_types import CODE_NAMED, ElementType, check_bool
from formats.reference.errors import Invalid, LimitExceeded, Malformed, SchemaMismatch, Unsupported
from formats.reference.extension import BASE
from formats.reference.floats import pack_elements, unpack_elements
from formats.reference.index.by_class import decode_by_class
from formats.reference.index.codecs import BY_CLASS, decode_index
from formats.reference.limits import DEFAULT_LIMITS, Limits, Work
from formats.reference.table import Entry
from formats.reference.tensors import TensorLocation
from formats.reference.value.codecs import STEPS, STEPS_ZSTD, VALUE_CODECS, ZSTD, decode_value
from formats.reference.value.steps import decode_steps, decode_steps_zstd
from formats.reference.value.zstd import Decompress

StateTensor = tuple[int, tuple[int, ...], bytes]
"""Number of the element type (SPEC sections 2.2 and 3.6), shape, and the elements' little-endian bytes."""
State = Mapping[str, StateTensor]
INDEX_IDS = {1, 2, 3, 6, BY_CLASS}
VALUE_IDS = {1, 7, STEPS, STEPS_ZSTD}
COMPLEX = {"complex64", "complex128"}
WRAP = 2**64


# ---- digests ----


def fold(x: int, number: int) -> int:
    """Mix a word with a number."""
    x = (x + number * 0x9E3779B97F4A7C15) % WRAP
    x = (x ^ x >> 32) * 0xBF58476D1CE4E5B9 % WRAP
    x = (x ^ x >> 29) * 0x94D049BB133111EB % WRAP
    return x ^ x >> 32


def close(x: int, number: int) -> int:
    """Mix a word with a number; the result, a digest, is not 0."""
    return fold(x, number) or 1


def sum_bytes(data: bytes) -> int:
    """Add up the mixed words of bytes."""
    words = struct.iter_unpack("<Q", data + bytes(-len(data) % 8))
    return sum(fold(word, number) for number, (word,) in enumerate(words, 1)) % WRAP


def digest_text(data: bytes) -> int:
    """Return the digest of a short byte string."""
    return close(sum_bytes(data), len(data))


def describe(number: int, shape: tuple[int, ...]) -> int:
    """Return the digest of an element type and a shape."""
    return digest_text(struct.pack(f"<HH{len(shape)}Q", number, len(shape), *shape))


def seal(tensor: StateTensor) -> int:
    """Return the digest of a whole tensor."""
    number, shape, data = tensor
    return close(sum_bytes(data) + describe(number, shape), len(data))


def digest_touched(tensor: StateTensor, indices: Sequence[int], words: Sequence[int]) -> int:
    """Return the digest of some elements of a tensor, whose words are given."""
    total = sum(fold(word, i + 1) for i, word in zip(indices, words, strict=True))
    return close(total + describe(*tensor[:2]), len(indices))


def take_words(elements: bytes, indices: Sequence[int], itemsize: int) -> list[int]:
    """Return the words of some elements."""
    places = [i * itemsize for i in indices]
    return [int.from_bytes(elements[at : at + itemsize], "little") for at in places]


def add_name(digest: int, name: str) -> int:
    """Return the digest of a tensor with its name, given that of the tensor."""
    return close(digest, digest_text(name.encode("utf-8")))


# ---- the record ----


@dataclass
class BaseRecord:
    """Content of the record: (before, after) of each tensor by key, and the removed tensors' digests."""

    touched: bool
    digests: list[tuple[int, int]]
    removed: dict[str, int]
    unchanged: int
    rest: int


def read_base(body: bytes, names: Sequence[str]) -> BaseRecord:
    """Make the checks base-record and base-names of a container with tensors of these names."""
    if len(body) < 24:
        raise Malformed("base-record", f"{len(body)} bytes")
    form, flags, reserved, n_removed, unchanged, further, rest = struct.unpack_from("<BBHIIIQ", body)
    digests_end = 24 + 16 * len(names)
    lengths_at = digests_end + 8 * n_removed
    at = lengths_at + 2 * n_removed
    if form != 1 or flags > 1 or reserved or further or at > len(body):
        raise Malformed("base-record", f"form {form}, flags {flags}, {n_removed} removed names")
    if flags and (unchanged or rest):
        raise Malformed("base-record", "a touched patch has a digest of other tensors")
    lengths = struct.unpack_from(f"<{n_removed}H", body, lengths_at)
    if at + sum(lengths) != len(body):
        raise Malformed("base-record", "the parts do not fill the body")
    ends = list(itertools.accumulate(lengths, initial=at))
    encoded = [body[a:b] for a, b in itertools.pairwise(ends)]
    try:
        removed = [name.decode("utf-8") for name in encoded]
    except UnicodeDecodeError as error:
        raise Invalid("base-names", "a removed name is not UTF-8") from error
    if any(b <= a for a, b in itertools.pairwise(encoded)):
        raise Invalid("base-names", "the removed names are not ascending")
    if both := set(removed) & set(names):
        raise Invalid("base-names", f"{min(both)!r} is a tensor of the patch, and removed")
    digests = list(struct.iter_unpack("<QQ", body[24:digests_end]))
    values = struct.unpack_from(f"<{n_removed}Q", body, digests_end)
    return BaseRecord(flags == 1, digests, dict(zip(removed, values, strict=True)), unchanged, rest)


# ---- reading ----


@dataclass
class Part:
    """Entry of a key, with its index and its value section."""

    entry: Entry
    index: bytes
    value: bytes


@dataclass
class Member:
    """Tensor of a key: where its elements are, and its digests before and after."""

    place: TensorLocation
    before: int
    after: int


def apply(
    data: bytes,
    state: State,
    *,
    partial: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    zstd: Decompress | None = None,
) -> dict[str, StateTensor]:
    """Apply a patch to a state.

    Args:
        data: one container.
        state: the old tensors by name.
        partial: whether the state has only a part of the tensors.
        limits: limits of the caller.
        zstd: as of ``decode``; without it, codecs 7 and 17 are refused.

    Returns:
        The new state.

    Raises:
        WireError: with the class and code of the first check of the page that fails.
    """
    data = bytes(data)
    supported = VALUE_CODECS.keys() - ({ZSTD} if zstd is None else set())
    header = read_header(data, limits, supported=supported, based=True)
    if BASE not in header.records:
        raise Unsupported("base-absent", "the container is not a patch of weights")
    record = read_base(header.records[BASE], [place.name for place in header.places])
    whole = _find_whole(header, record)
    stored = sum(entry.d for entry in header.entries if whole[entry.key])
    if stored > limits.max_expansion * len(data):
        raise LimitExceeded("max-expansion", f"{stored} elements of whole tensors in {len(data)} bytes")
    parts = _split_entries(data, header)
    members: dict[int, list[Member]] = {}
    for place, (before, after) in zip(header.places, record.digests, strict=True):
        members.setdefault(place.entry_key, []).append(Member(place, before, after))
    new = dict(state)
    for key, own in parts.items():
        if whole[key]:
            new.update(_read_whole(members[key][0], own, state, partial, zstd))
        else:
            reader = _Partial(members[key], own, record.touched, zstd)
            new.update(reader.read(state, partial))
    for name, digest in record.removed.items():
        if name in state and seal(state[name]) != digest:
            raise SchemaMismatch("base", f"removed tensor {name!r} is not that of the base")
        new.pop(name, None)
    if not partial and not record.touched:
        _check_rest(state, record, {place.name for place in header.places})
    return new


def _find_whole(header: Header, record: BaseRecord) -> dict[int, bool]:
    """Make the check base-entries; return by the key of entries whether its tensor is whole."""
    ids = INDEX_IDS - ({BY_CLASS} if record.touched else set())
    for entry in header.entries:
        if entry.domain or entry.map or entry.index not in ids or entry.value not in VALUE_IDS:
            raise Invalid("base-entries", "not an entry of a patch", entry=entry.number)
    whole = {entry.key: True for entry in header.entries}
    for entry in header.entries:
        if entry.r < entry.d or entry.value in (STEPS, STEPS_ZSTD):
            whole[entry.key] = False
    for key, place in enumerate(header.places):
        if place.entry_key != key:
            whole[place.entry_key] = False
    for place in header.places:
        if place.dtype.name in COMPLEX and not whole[place.entry_key]:
            raise Invalid("base-entries", f"{place.name!r} is complex, and not whole")
    return whole


def _split_entries(data: bytes, header: Header) -> dict[int, list[Part]]:
    """Make the checks of rows 45 and 46; return the sections of each key."""
    parts: dict[int, list[Part]] = {}
    offset = header.payload
    for entry in header.entries:
        (_, index), (_, value), _ = split_entry(data, offset, entry)
        parts.setdefault(entry.key, []).append(Part(entry, index, value))
        offset += entry.payload_bytes
    return parts


def _number(dtype: ElementType) -> int:
    return CODE_NAMED[dtype.name]


def _read_whole(
    member: Member, parts: list[Part], state: State, partial: bool, zstd: Decompress | None
) -> dict[str, StateTensor]:
    """Make the checks of a whole tensor; return it by its name, or nothing if it is complete or left out."""
    place = member.place
    if place.name in state:
        own = seal(state[place.name])
        if own == member.after:
            return {}
        if own != member.before:
            raise SchemaMismatch("base", f"{place.name!r} is neither that of the base nor of the target")
    elif member.before:
        if partial:
            return {}
        raise SchemaMismatch("base-tensors", f"the state lacks {place.name!r}")
    data = b""
    for part in parts:
        values = decode_value(part.entry.value, part.value, part.entry.r, place.dtype, zstd)
        check_bool(values, place.dtype)
        data += values
    made = (_number(place.dtype), place.shape, data)
    if seal(made) != member.after:
        raise Invalid("base-target", f"{place.name!r} is not that of the target")
    return {place.name: made}


@dataclass
class _Partial:
    """Reader of the partial tensors of one key."""

    members: list[Member]
    parts: list[Part]
    touched: bool
    zstd: Decompress | None

    def read(self, state: State, partial: bool) -> dict[str, StateTensor]:
        """Make the checks of the key; return the new tensors, or none if all are complete or left out."""
        places = [member.place for member in self.members]
        dtype = places[0].dtype
        absent = [p.name for p in places if p.name not in state]
        if partial and len(absent) == len(places):
            return {}
        if absent:
            raise SchemaMismatch("base-tensors", f"the state lacks {absent[0]!r}")
        given = [state[p.name] for p in places]
        for p, (number, shape, _) in zip(places, given, strict=True):
            if number != _number(dtype) or math.prod(shape) != p.size:
                raise SchemaMismatch("base-shape", f"{p.name!r} has another type or size")
        size, old = dtype.itemsize, b"".join(tensor[2] for tensor in given)
        indices = self._read_indices(old, dtype) if self.touched else []
        own = self._digest(given, indices)
        if own == [member.after for member in self.members]:
            return {}
        if own != [member.before for member in self.members]:
            raise SchemaMismatch("base", "tensors of a key are neither those of the base nor of the target")
        indices, words = self._read_elements(old, dtype)
        new = bytearray(old)
        for i, word in zip(indices, words, strict=True):
            new[i * size : (i + 1) * size] = word.to_bytes(size, "little")
        made = []
        for p, (number, shape, _) in zip(places, given, strict=True):
            made.append((number, shape, bytes(new[p.start * size : (p.start + p.size) * size])))
        for digest, member in zip(self._digest(made, indices), self.members, strict=True):
            if digest != member.after:
                raise Invalid("base-target", f"{member.place.name!r} is not that of the target")
        return {p.name: tensor for p, tensor in zip(places, made, strict=True)}

    def _digest(self, tensors: list[StateTensor], indices: list[int]) -> list[int]:
        """Return the digest of each member that its pair is compared with."""
        if not self.touched:
            return [seal(tensor) for tensor in tensors]
        found = []
        for member, tensor in zip(self.members, tensors, strict=True):
            start, stop = member.place.start, member.place.start + member.place.size
            inside = [i - start for i in indices if start <= i < stop]
            words = take_words(tensor[2], inside, member.place.dtype.itemsize)
            found.append(digest_touched(tensor, inside, words))
        return found

    def _read_indices(self, old: bytes, dtype: ElementType) -> list[int]:
        """Return the present elements of all entries, counted from the first element of the key."""
        return [i for part in self.parts for i in self._read_index(part, old, dtype)]

    def _read_index(self, part: Part, old: bytes, dtype: ElementType) -> list[int]:
        e, size = part.entry, dtype.itemsize
        if e.index == BY_CLASS and 0 < e.r < e.d:
            own = unpack_elements(old[e.base * size : (e.base + e.d) * size], size)
            local = decode_by_class(part.index, own, 8 * size, e.r)
        else:
            local = list(decode_index(e.index, part.index, e.r, e.d, Work(0)))
        return [e.base + i for i in local]

    def _read_elements(self, old: bytes, dtype: ElementType) -> tuple[list[int], list[int]]:
        """Return the present elements of all entries, and their new words."""
        found: tuple[list[int], list[int]] = [], []
        for part in self.parts:
            indices = self._read_index(part, old, dtype)
            words = self._read_value(part, take_words(old, indices, dtype.itemsize), dtype)
            check_bool(pack_elements(words, dtype.itemsize), dtype)
            found[0].extend(indices)
            found[1].extend(words)
        return found

    def _read_value(self, part: Part, old: list[int], dtype: ElementType) -> list[int]:
        if not old:
            return []
        codec, width = part.entry.value, 8 * dtype.itemsize
        if codec == STEPS:
            return decode_steps(part.value, old, width)
        if codec == STEPS_ZSTD:
            return decode_steps_zstd(part.value, old, width, self.zstd)
        return unpack_elements(decode_value(codec, part.value, len(old), dtype, self.zstd), dtype.itemsize)


def _check_rest(state: State, record: BaseRecord, names: set[str]) -> None:
    """Compare the tensors that the patch neither has nor removes with the digest of all of them."""
    others = [name for name in state if name not in names and name not in record.removed]
    if len(others) != record.unchanged:
        raise SchemaMismatch("base-tensors", f"{len(others)} other tensors; the base has {record.unchanged}")
    if sum(add_name(seal(state[name]), name) for name in others) % WRAP != record.rest:
        raise SchemaMismatch("base", "an unchanged tensor is not that of the base")
