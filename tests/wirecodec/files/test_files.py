"""Files of tensors: what is written is read, and every other file is refused or as it was before."""

from __future__ import annotations

import errno
import os
import random
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from formats.reference.stream_index import read_index as read_by_reference
from wirecodec.files import index, writer
from wirecodec.files.index import END_BYTES

RAW = "all | raw-index | raw"
TENSORS: dict[str, Any] = {
    "w": np.arange(12, dtype="f4").reshape(3, 4),
    "bf": np.arange(5, dtype=ml_dtypes.bfloat16),
    "é": np.float64(-0.0),
    "none": np.zeros((2, 0), "f2"),
    "flags": np.array([True, False]),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "a.wc"
    with wc.open(found, "w") as file:
        file.append(TENSORS, RAW)
    return found


def check(found: wc.SparseTensor, wanted: Any) -> None:
    dense = found.to_dense()
    assert (dense.dtype, dense.shape) == (np.asarray(wanted).dtype, np.shape(wanted))
    assert dense.tobytes() == np.asarray(wanted).tobytes()


def test_every_tensor_is_read_alone(path: Path) -> None:
    with wc.open(path, verify=True) as file:
        assert list(file) == list(TENSORS)
        assert len(file) == 5
        assert "x" not in file
        for name, tensor in TENSORS.items():
            entry = file.entry(name)
            assert (entry.name, entry.shape, entry.dtype) == (
                name,
                np.shape(tensor),
                np.asarray(tensor).dtype,
            )
            check(file[name], tensor)
        assert [e.name for e in file.entries()] == list(TENSORS)
        with pytest.raises(KeyError):
            file["x"]


def test_it_is_a_stream_that_other_readers_take(path: Path) -> None:
    blobs = list(wc.iter_blobs(path.read_bytes()))
    assert [list(wc.decode_many(blob)) for blob in blobs] == [[name] for name in TENSORS]
    with wc.open(path) as file:
        offsets = [file.entry(name).offset for name in TENSORS]
    assert [part.offset for part in read_by_reference(path.read_bytes())] == offsets


def test_two_reads_of_a_bucket() -> None:
    fsspec = pytest.importorskip("fsspec")
    url, memory = "memory://bucket/a.wc", fsspec.filesystem("memory")
    with wc.open(url, "w") as file:
        file.append(TENSORS, RAW)
    requests = []
    read = memory.cat_file

    def count(*args: Any, **kwargs: Any) -> Any:
        requests.append(kwargs)
        return read(*args, **kwargs)

    memory.cat_file = count
    try:
        with wc.open(url) as file:
            check(file["w"], TENSORS["w"])
    finally:
        del memory.cat_file
    assert len(requests) == 2
    with pytest.raises(ValueError, match="cannot be continued"):
        wc.open(url, "a")
    with pytest.raises(KeyError), wc.open(url, "w") as file:
        raise KeyError
    with wc.open(url) as file:
        assert len(file) == 5


def test_a_name_that_is_appended_again_counts(path: Path) -> None:
    before = path.read_bytes()
    with wc.open(path, "a", align=64) as file:
        file.append({"w": np.ones(3, "i4"), "new": np.zeros(4, "f4")}, RAW)
        file.append_blob(wc.encode_many({"p": np.ones(2, "f4"), "q": np.arange(3, dtype="f4")}, RAW))
    assert path.read_bytes().startswith(before)
    with wc.open(path) as file:
        check(file["w"], np.ones(3, "i4"))
        check(file["q"], np.arange(3, dtype="f4"))
        assert [e.shape for e in file.versions("w")] == [(3, 4), (3,)]
        for name in ("new", "q"):
            blob = path.read_bytes()[file.entry(name).offset :][: file.entry(name).nbytes]
            assert (file.entry(name).offset + wc.inspect(blob).nbytes - sum_of_sections(blob)) % 64 == 0
    assert len(read_by_reference(path.read_bytes())) == 8


def sum_of_sections(blob: bytes) -> int:
    return sum((n + 7) & ~7 for e in wc.inspect(blob).entries for n in (e.index_bytes, e.value_bytes))


def test_a_damaged_length_before_other_tensors_is_no_cut(path: Path) -> None:
    """The tensors behind it stay."""
    parts = read_by_reference(path.read_bytes())
    data = bytearray(path.read_bytes()[: parts[-1].offset + parts[-1].length])  # without an index
    for bit in range(8, 64):
        damaged = data.copy()
        damaged[parts[1].offset + 16 + bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(wc.WireError):
            wc.open(path, "a")
        assert path.read_bytes() == damaged


def test_a_tensor_above_the_limit_is_not_read(tmp_path: Path) -> None:
    with wc.open(tmp_path / "a.wc", "w") as file:
        file.append({"w": np.zeros(9000, "f4")}, RAW)
    with wc.open(tmp_path / "a.wc") as file:
        nbytes = file.entry("w").nbytes
    for less in (8, 0):
        limits = wc.DecodeLimits(max_bytes=nbytes - less)
        with wc.open(tmp_path / "a.wc", limits=limits) as file:
            if less:
                with (
                    mock.patch.object(file, "_source"),
                    pytest.raises(wc.LimitExceeded, match="max-bytes"),
                ):
                    file["w"]
            assert less or file["w"].size == 9000


def test_a_stream_that_is_cut_anywhere_is_noticed_and_continued(path: Path) -> None:
    data = path.read_bytes()
    ends = [part.offset + part.length for part in read_by_reference(data)]
    for stop in range(0, len(data), 8):
        path.write_bytes(data[:stop])
        with pytest.raises(wc.Truncated, match="stream-end"):
            wc.open(path)
        if stop < ends[0]:
            continue
        with wc.open(path, "a") as file:
            file.append({"last": np.ones(1, "f4")}, RAW)
        with wc.open(path) as file:
            assert len(file) == sum(end <= stop for end in ends) + 1


@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_block_that_raises_leaves_the_file(path: Path, mode: str) -> None:
    before = path.read_bytes()

    def fail() -> None:
        with wc.open(path, mode) as file:  # type: ignore[call-overload]
            file.append({"x": np.ones(10**5, "f4")}, RAW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["a.wc"]


@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_writer_that_nobody_closes_leaves_the_file(path: Path, mode: str) -> None:
    before = path.read_bytes()
    file = wc.open(path, mode)  # type: ignore[call-overload]
    file.append({"x": np.ones(9, "f4")}, RAW)
    with pytest.warns(ResourceWarning, match="was not closed"):
        del file
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["a.wc"]


@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_disk_that_is_full_leaves_the_file(path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    file = wc.open(path, mode)  # type: ignore[call-overload]
    write, left = file._file.write, 3

    class Full:
        def write(self, data: Any) -> int:
            nonlocal left
            left -= 1
            if not left:
                write(bytes(data)[:5])
                raise OSError(errno.ENOSPC, "full")
            return write(data)

        def __getattr__(self, name: str) -> Any:
            return getattr(file_of, name)

    file_of = file._file
    file._file = Full()
    tensors = {f"x{number}": np.ones(9, "f4") for number in range(9)}
    with pytest.raises(OSError, match="full"):
        file.append(tensors, RAW)
    with pytest.raises(OSError, match="as it was before"):
        file.close()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["a.wc"]


def test_a_file_keeps_its_mode_and_its_link(path: Path) -> None:
    os.chmod(path, 0o640)
    link = path.parent / "link"
    link.symlink_to(path)
    with wc.open(link, "w") as file:
        file.append({"x": np.ones(2, "f4")}, RAW)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with wc.open(path) as file:
        assert list(file) == ["x"]


def list_lies() -> Iterator[tuple[str, Callable[[index.Part], index.Part]]]:
    """Yield sound indexes that contradict their container, with the code of the refusal."""
    yield "schema-shape", lambda part: change(part, ("w", (4, 3), np.dtype("f4")))
    yield "schema-dtype", lambda part: change(part, ("w", (3, 4), np.dtype("i4")))
    yield "schema-names", lambda part: change(part, ("v", (3, 4), np.dtype("f4")))
    yield "trailing|container", lambda part: index.Part(0, part.length - 8, part.digest, part.tensors)
    yield "magic", lambda part: index.Part(8, part.length - 8, part.digest, part.tensors)


def change(part: index.Part, tensor: Any) -> index.Part:
    return index.Part(part.offset, part.length, part.digest, (tensor,))


@pytest.mark.parametrize(("code", "lie"), list(list_lies()))
def test_an_index_that_lies_is_refused(path: Path, code: str, lie: Any) -> None:
    blob = wc.encode_many({"w": TENSORS["w"]}, RAW).tobytes()
    part = index.Part(0, len(blob), bytes(32), (("w", (3, 4), np.dtype("f4")),))
    path.write_bytes(blob + index.write_index([lie(part)], len(blob)))
    with wc.open(path) as file, pytest.raises(wc.WireError, match=code):
        file[next(iter(file))]
    path.write_bytes(blob + index.write_index([part], len(blob)))
    with wc.open(path, verify=True) as file, pytest.raises(wc.ChecksumMismatch, match="index-digest"):
        file["w"]


def test_an_index_lifts_no_limit(path: Path) -> None:
    with wc.open(path, "w") as file:
        file.append({"w": np.zeros(10**6, "f4")}, "all | raw-index | zstd")
    with wc.open(path) as file, pytest.raises(wc.LimitExceeded, match="max-expansion"):
        file["w"]


def test_no_bytes_raise_another_error(path: Path) -> None:
    data, draw = bytearray(path.read_bytes()), random.Random(7)
    tail = len(data) - read_by_reference(bytes(data))[-1].offset
    for _ in range(3000):
        wrong = bytearray(data)
        for _ in range(draw.randint(1, 3)):
            at = len(wrong) - 1 - draw.randrange(tail)
            wrong[at] = draw.randrange(256)
        if draw.random() < 0.7:  # the checks behind those of digests and checksums are reached, too
            wrong = bytearray(reseal(bytes(wrong)))
        try:
            found = index.read_index(
                len(wrong), lambda a, b, w=wrong: np.frombuffer(w, np.uint8)[a:b], wc.DecodeLimits()
            )
            list(found.rows)
        except wc.WireError:
            pass


def reseal(data: bytes) -> bytes:
    """Return a closed stream whose index has the checksum, and whose end the digest, of their bytes."""
    import hashlib
    import struct
    import zlib

    def seal(unit: bytes) -> bytes:
        return unit[:12] + struct.pack("<I", zlib.crc32(unit[16:], zlib.crc32(unit[:12]))) + unit[16:]

    offset, length = struct.unpack_from("<QQ", data, len(data) - END_BYTES + 32)
    if offset + length > len(data) - END_BYTES or length < 24:
        return data
    unit = seal(data[offset : offset + length])
    end = data[-END_BYTES:]
    end = seal(end[:56] + hashlib.sha256(unit).digest() + end[88:])
    return data[:offset] + unit + data[offset + length : -END_BYTES] + end


@pytest.mark.parametrize("scheme", [RAW, "nonzero | rice | raw", "rfft | topk(1.0) | rice | raw"])
@pytest.mark.parametrize("fuse", [0, 100])
def test_some_tensors_of_a_container(scheme: str, fuse: int) -> None:
    tensors = {f"t{i}": np.arange(i, i + 9, dtype="f4") for i in range(6)}
    blob = wc.encode_many(tensors, {"t[0-4]": scheme, "*": RAW}, fuse=fuse)
    whole = wc.decode_many(blob)
    for names in (["t3"], ["t5", "t0"], [], list(tensors)):
        found = wc.decode_many(blob, names=names)
        assert list(found) == sorted(set(names))
        assert all(found[name].to_dense().tobytes() == whole[name].to_dense().tobytes() for name in names)
    with pytest.raises(KeyError):
        wc.decode_many(blob, names=["t9"])


def test_damage_in_other_tensors_is_not_read() -> None:
    blob = wc.encode_many({"a": np.ones(64, "f4"), "b": np.ones(64, "f4")}, RAW)
    blob[-8] ^= 1  # of b
    assert wc.decode_many(blob, names=["a"])["a"].nnz == 64
    with pytest.raises(wc.ChecksumMismatch):
        wc.decode_many(blob, names=["b"])


@pytest.mark.parametrize("align", [0, 4, 12, 2**21])
def test_alignments_that_are_refused(tmp_path: Path, align: int) -> None:
    with pytest.raises(ValueError, match="align"):
        wc.open(tmp_path / "x", "w", align=align)
    assert not os.listdir(tmp_path)
    assert writer.PADDING == 3


def test_a_name_is_found_among_names_that_contain_it(tmp_path: Path) -> None:
    names = ["a", "ba", "aa", "", "a.b", "é", *(f"{i}a" for i in range(60)), "xé"]
    tensors = {name: np.full(1, i, "f4") for i, name in enumerate(names)}
    with wc.open(tmp_path / "a.wc", "w") as file:
        file.append(tensors, RAW)
    for name in [*names, "b", "é.", "59", "\ud800"]:
        with wc.open(tmp_path / "a.wc") as file:  # another object: nothing is known yet
            assert (name in file) == (name in tensors)
            if name in tensors:
                check(file[name], tensors[name])
                assert file.dense(name).tobytes() == tensors[name].tobytes()
        with wc.open(tmp_path / "a.wc") as file:
            assert list(file) == names
            assert (name in file) == (name in tensors)


def test_a_dense_array_is_the_callers(path: Path) -> None:
    with wc.open(path, "a") as file:
        file.append({"sparse": np.array([0, 2], "f4")}, "nonzero | rice | raw")
    with wc.open(path) as file:
        for name in [*TENSORS, "sparse"]:
            array = file.dense(name)
            assert array.flags.writeable
            assert array.flags.c_contiguous
            assert array.tobytes() == file[name].to_dense().tobytes()
            assert array.shape == file[name].shape
        assert not file["w"].values.flags.writeable
