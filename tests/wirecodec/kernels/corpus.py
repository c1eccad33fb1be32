"""Corpus of encodes, decodes and steps that reaches every kernel of ``wirecodec/kernels/cpu``.

``python -m tests.wirecodec.kernels.corpus [half ...]`` runs it, and prints the kernels that it did not reach.
``test_memory.py`` runs it under bounds checks, and with a guard page behind each array.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

import wirecodec as wc
import wirecodec.kernels.cpu
from tests.wirecodec.container.long_extensions import LONG, RECORDS, ROWS, with_records, with_rows
from tests.wirecodec.kernels.guard import guard_memory
from tests.wirecodec.test_battery import INDEX, VALUE, variants
from wirecodec.arrays import UNSIGNED, addresses_of, aligned, bits_of, nothing, read_only
from wirecodec.cpu.fast import stream
from wirecodec.cpu.fast.sums import MIN_FUSED_SIZE
from wirecodec.interop import find_members
from wirecodec.kernels.compiler.family import Family
from wirecodec.kernels.cpu import threads
from wirecodec.kernels.cpu.outer import take_outer_steps
from wirecodec.kernels.cpu.select import radix
from wirecodec.kernels.cpu.support import find_array
from wirecodec.kernels.term_forms import HEAVY_BALL, SUM_NAMES, TOTAL
from wirecodec.limits import UNLIMITED
from wirecodec.patch import positions as patch_positions
from wirecodec.patch import steps as patch_steps
from wirecodec.patch.host import of_array
from wirecodec.patch.states import kind_of
from wirecodec.select import term_table
from wirecodec.select.base import HUGE_BITS, INFINITY_BITS
from wirecodec.select.term_table import TermTable
from wirecodec.select.topk import exact as topk_exact
from wirecodec.sparse import sum_sparse

__all__ = ["HALVES", "kernels", "run", "unused_kernels"]

DTYPES = [np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float64)]
SIZES = (1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1024, 4095, 4096, 4097)
"""Numbers of elements, around the multiples of 8 to 4096 in which kernels work."""
SELECTORS = (
    *("all", "nonzero", "topk(0.1)", "topk(k=1)", "randomk(0.1)", "threshold(0.5)"),
    *("dgc(0.02)", "redsync(0.02)", "gaussiank(0.02)", "adacomp"),
    *("chunk-topk(0.05, 100)", "chunk-topk(0.02, 1000)"),
    *(f"sidco(0.02, sid={sid})" for sid in ("exponential", "gamma-gp", "gp")),
)

Sink = Callable[[Any], object]


def supports(rng: np.random.Generator) -> Iterator[tuple[int, Any]]:
    """Yield (d, ascending u32 indices) of uniform, clustered and strided supports."""
    for r in SIZES:
        for d in (r + 1, 2 * r + 64, 100 * r + 1):
            yield d, np.sort(rng.choice(d, r, replace=False)).astype(np.uint32)
    runs = (64 * np.sort(rng.choice(2000, 40, replace=False))[:, None] + np.arange(64)).ravel()
    yield 128_000, runs.astype(np.uint32)
    yield 2**24, np.array([0, 2**24 - 1], np.uint32)
    yield 20_000, np.arange(0, 20_000, 2, dtype=np.uint32)
    for gaps in (rng.geometric(0.0005, 9000), np.where(rng.random(9000) < 0.01, 1500, 1)):
        yield int(gaps.sum()) + 3, (np.cumsum(gaps) - 1).astype(np.uint32)


def corruptions(rng: np.random.Generator, section: bytes) -> Iterator[Any]:
    """Yield changed copies of a section: other bytes, fewer bytes, more bytes."""
    for n in range(6):
        data = np.frombuffer(section, np.uint8).copy()
        for at in rng.integers(0, data.size, 1 + n // 2):
            data[at] = rng.integers(256) if n % 2 else data[at] ^ 1 << rng.integers(8)
        yield read_only(data)
    data = np.frombuffer(section, np.uint8)
    yield read_only(data[: data.size // 2].copy())
    yield read_only(np.concatenate([data, data[:8]]))
    yield read_only(np.full_like(data, 0xFF))


def put_corrupted(sink: Sink, rng: np.random.Generator, section: bytes, decode: Callable[[Any], Any]) -> None:
    """Decode changed copies of a section. Only a ``WireError`` may be raised."""
    if not section:
        return
    for bad in corruptions(rng, section):
        try:
            sink(decode(bad))
        except wc.WireError as error:
            sink(error.code)


def decoded(codec: Any, d: int, r: int, section: Any) -> Any:
    """Decode a section of indices."""
    return codec.decode(section, d, r, UNLIMITED)


def run_index_codecs(sink: Sink) -> None:
    """Encode and decode every support by every index codec and variant."""
    rng = np.random.default_rng(1)
    for d, indices in supports(rng):
        sink(wc.codecs.AutoIndex().choose(read_only(indices), d, 1)[1])
        for codec in (one for cls in INDEX for one in variants(cls)):
            try:
                section = bytes(codec.encode(read_only(indices), d, 7))
            except wc.EncodeError as error:
                sink(str(error))
                continue
            r = indices.size
            if codec.lossy:
                found = codec.approximate(read_only(indices), d, 7).found
                r = r if found is None else found.size
            if r == d:
                continue
            data = read_only(np.frombuffer(section, np.uint8).copy())
            sink(type(codec).decode(data, d, r, UNLIMITED))
            if r in (64, 129, 4097):
                put_corrupted(sink, rng, section, partial(decoded, type(codec), d, r))


def values_of(rng: np.random.Generator, size: int, dtype: np.dtype[Any]) -> Iterator[Any]:
    """Yield vectors of values: dense, with zeros, of few magnitudes."""
    yield rng.laplace(size=size).astype(dtype)
    if size in (65, 512, 4097):
        yield (rng.normal(size=size) * (rng.random(size) < 0.1)).astype(dtype)
        yield np.full(size, -0.25).astype(dtype)
        yield (rng.standard_t(1.5, size).clip(-60_000, 60_000)).astype(dtype)


def run_value_codecs(sink: Sink) -> None:
    """Encode and decode values of every type by every value codec and variant."""
    rng = np.random.default_rng(2)
    codecs = [one for cls in VALUE for one in variants(cls) if not cls.name.startswith("raw-")]
    codecs += [
        wc.codecs.Raw("float16"),
        wc.codecs.Raw("bfloat16"),
        wc.codecs.AutoValue(),
        wc.codecs.AutoValue(0.3),
    ]
    for dtype in DTYPES:
        for size in SIZES:
            for values in values_of(rng, size, dtype):
                for codec in codecs:
                    scheme = wc.Scheme(wc.selectors.All(), wc.codecs.RawIndex(), codec)
                    try:
                        blob = wc.encode(values, scheme, seed=3)
                    except wc.EncodeError as error:
                        sink(str(error))
                        continue
                    sink(wc.decode(blob).values)
                    if size in (64, 513):
                        put_corrupted_values(sink, rng, blob, size, dtype)


def run_long_values(sink: Sink) -> None:
    """Encode and decode enough values for 32 lanes of the entropy coder."""
    rng = np.random.default_rng(6)
    for dtype in DTYPES[::3]:
        values = rng.laplace(size=20_001).astype(dtype)
        blob = wc.encode(values, "all | raw-index | error-bounded(0.01)")
        sink(wc.decode(blob).values)
        put_corrupted_values(sink, rng, blob, values.size, dtype)


def put_corrupted_values(
    sink: Sink, rng: np.random.Generator, blob: Any, size: int, dtype: np.dtype[Any]
) -> None:
    """Decode changed copies of the value section of a container of one full tensor."""
    entry = wc.inspect(blob).entries[0]
    codec: Any = wc.registry.value_codec({c.name: c.wire_id for c in VALUE}[entry.value])
    section = bytes(memoryview(blob)[64 : 64 + entry.value_bytes])
    put_corrupted(sink, rng, section, lambda x: codec.decode(x, size, dtype, UNLIMITED))


def run_patches(sink: Sink) -> None:
    """Write and apply patches of states of every width, and read changed sections of them."""
    rng = np.random.default_rng(11)
    for dtype in map(np.dtype, (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, np.float32, np.float64)):
        for share in (0.02, 0.6):
            old = {f"{size}": rng.normal(0, 0.02, size).astype(dtype) for size in (*SIZES, 40_001)}
            new = {name: changed_by_steps(rng, x, share) for name, x in old.items()}
            for base in ("read", "unread"):
                patch = wc.diff(old, new, base=base)
                sink(patch)
                state = wc.apply(patch, {name: x.copy() for name, x in old.items()})
                sink(np.concatenate([bits_of(x) for x in state.values()]))
            put_corrupted_patch(sink, rng, old["40001"], new["40001"])


def changed_by_steps(rng: np.random.Generator, x: Any, share: float) -> Any:
    """Change a share of the small elements of a vector, and fewer of the others."""
    bits = bits_of(x).copy()
    where = rng.random(x.size) < share * np.where(np.abs(x.astype(float)) < 0.01, 1, 0.02)
    bits[where] ^= rng.choice(np.array([1, 1, 1, 2, 5], bits.dtype), int(where.sum()))
    return bits.view(x.dtype)


def put_corrupted_patch(sink: Sink, rng: np.random.Generator, old: Any, new: Any) -> None:
    """Decode changed copies of the sections of a patch, past the checksum of a container."""
    shifts, old, new = kind_of(old.dtype).shifts, bits_of(old), bits_of(new)
    at = np.flatnonzero(old != new).astype(np.uint32)
    olds, news = old[at], new[at]
    base = of_array(old, old.shape)
    sink(base.take(at))
    classes = patch_positions.choose_classes(base, olds, shifts)
    sections: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
        (patch_positions.encode(base, at, *classes), lambda x: patch_positions.decode(x, base, at.size)[0]),
        (patch_steps.encode(olds, news, signed=True, shift=shifts[0]), lambda x: patch_steps.decode(x, olds)),
        (patch_steps.encode(olds, news, signed=True, shift=None), lambda x: patch_steps.decode(x, olds)),
        (
            patch_steps.encode_planes(olds, news, signed=True, level=3),
            lambda x: patch_steps.decode_planes(x, olds, UNLIMITED),
        ),
    )
    for section, decode in sections:
        sink(decode(read_only(section)))
        put_corrupted(sink, rng, section.tobytes(), decode)


def run_refusals(sink: Sink) -> None:
    """Narrow values of every type of which one is too large for float16."""
    for dtype in DTYPES[::2] + DTYPES[3:]:
        for size in (1, 64, 65, 4097):
            values = np.ones(size, dtype)
            values[-1] = 1e6
            try:
                wc.encode(values, "all | raw-index | raw(float16)")
            except wc.EncodeError as error:
                sink(str(error))


def run_long_extensions(sink: Sink) -> None:
    """Read extension blocks that are long enough for the kernels that skip sound records and rows."""
    blobs = [with_records(LONG, last) for last in RECORDS.values()]
    blobs += [with_rows(LONG, last) for last in ROWS.values()]
    for blob in blobs:
        try:
            sink(repr(wc.inspect(blob)))
        except wc.WireError as error:
            sink(error.code)


def gradients(rng: np.random.Generator, dtype: np.dtype[Any]) -> Iterator[Any]:
    """Yield gradients of a type."""
    for size in (1, 63, 64, 65, 513, 4096, 4097, 70_001):
        yield rng.laplace(size=size).astype(dtype)
    yield (rng.normal(size=(40, 100)) * (rng.random((40, 100)) < 0.3)).astype(dtype)


def run_selectors(sink: Sink) -> None:
    """Encode gradients of every type by every selector, without feedback."""
    for dtype in DTYPES:
        rng = np.random.default_rng(3)
        for gradient in gradients(rng, dtype):
            for selector in SELECTORS:
                sink(wc.encode(gradient, f"{selector} | auto-index | raw", seed=1))
            if gradient.size > 1:  # top_k counts only if two samples were misleading, by bad luck
                bits = read_only(bits_of(gradient).reshape(-1))
                sink(np.array(radix.find_threshold_by_digits(bits, gradient.size // 2)))


def run_budgets(sink: Sink) -> None:
    """Encode gradients of every type within a budget, alone and as groups with weights."""
    for dtype in DTYPES:
        rng = np.random.default_rng(8)
        for gradient in gradients(rng, dtype):
            for bits in (0.5, 6):
                if bits * gradient.size > 1200:  # otherwise the header takes more
                    sink(wc.encode(gradient, f"budget({bits}) | rice | error-bounded"))
        for scheme in ("budget(0.5) | rice | error-bounded", "budget(2) | rice | error-bounded(0.1)"):
            each = wc.Compressor(scheme)
            for _ in range(3):
                sizes = (300, 5001, 40_001, 200_001)
                sink(each.compress({f"{size}": rng.laplace(size=size).astype(dtype) for size in sizes}))
        group = wc.Compressor("budget(1) | rice | error-bounded", scope="group", weights={"a*": 0.5})
        for _ in range(2):
            sink(group.compress({name: rng.laplace(size=5001).astype(dtype) for name in ("a", "ab", "b")}))


def run_transforms(sink: Sink) -> None:
    """Encode and decode coefficients."""
    for dtype in DTYPES:
        rng = np.random.default_rng(4)
        for gradient in gradients(rng, dtype):
            for scheme in ("dct | topk(0.1) | rice | raw", "rfft | topk(0.1) | rice | qsgd"):
                sink(wc.decode(wc.encode(gradient, scheme)).values)


def run_steps(sink: Sink) -> None:
    """Take Compressor steps, and add what was sent into dense arrays."""
    for dtype in DTYPES:
        rng = np.random.default_rng(5)
        for selector in SELECTORS:
            for value, beta in (("raw", 1.0), ("qsgd", 1.0), ("raw", 0.5)):
                c = wc.Compressor(
                    f"{selector} | auto-index | {value}", feedback=wc.ErrorFeedback(beta), fuse=600
                )
                for _ in range(3):
                    named = {f"{n:05}": rng.normal(size=n).astype(dtype) for n in (1, 64, 65, 513, 5000)}
                    blob = c.compress(named)
                    out = {name: np.zeros(x.size, np.float32) for name, x in named.items()}
                    wc.decode_add(blob, out, scale=0.5)
                    sink(blob)
                    sink(np.concatenate(list(out.values())))


def run_many(sink: Sink) -> None:
    """Encode, decode and add many tensors in one container, and take steps with them."""
    rng = np.random.default_rng(7)
    for dtype in DTYPES[::3]:
        for value in ("qsgd", "raw"):
            scheme = f"topk(0.1) | rice | {value}"
            named = {f"{i:03}": rng.laplace(size=200 + 37 * i).astype(dtype) for i in range(40)}
            sums = {name: np.zeros(x.size, dtype) for name, x in named.items()}
            blob = wc.encode_many(named, scheme)
            wc.decode_add(blob, sums, scale=0.5)
            compressor = wc.Compressor(scheme)
            corrected = wc.Compressor(scheme, feedback=wc.MomentumCorrection(nesterov=value == "raw"), clip=1)
            steps = (one.compress(named) for one in (compressor, corrected) for _ in range(3))
            for each in (blob, *steps):
                sink(each)
                sink(np.concatenate([tensor.values for tensor in wc.decode_many(each).values()]))
            sink(np.concatenate(list(sums.values())))
        chosen = {
            f"{i:03}": wc.SparseTensor(indices, np.ones(indices.size, dtype), d)
            for i, (d, indices) in enumerate(supports(rng))
        }
        indexed = wc.encode_many(chosen, "nonzero | auto-index | raw")
        sink(indexed)
        sink(np.concatenate([tensor.indices for tensor in wc.decode_many(indexed).values()]))
        narrow = wc.encode_many(named, "topk(0.1) | delta | raw(bfloat16)")
        sink(np.concatenate([tensor.values for tensor in wc.decode_many(narrow).values()]))
        for error in (0.001, 0.3):
            bounded = wc.encode_many(named, f"topk(0.1) | rice | error-bounded({error})")
            sink(bounded)
            sink(np.concatenate([tensor.values for tensor in wc.decode_many(bounded).values()]))
        for rule in (
            wc.ErrorFeedback(),
            wc.ErrorFeedback(decay=0.5),
            wc.MomentumCorrection(),
            wc.MomentumCorrection(nesterov=True),
        ):
            compressor = wc.Compressor("topk(0.01) | rice | qsgd", feedback=rule)
            for _ in range(2):
                sink(compressor.compress({"w": rng.laplace(size=MIN_FUSED_SIZE + 65).astype(dtype)}))
            sink(compressor.residual("w"))
            for scheme in ("topk(0.01) | rice | qsgd", "threshold(2) | rice | raw"):
                group = wc.Compressor(scheme, feedback=rule, scope="group")
                for _ in range(3):
                    sink(group.compress({f"{n}": rng.laplace(size=n).astype(dtype) for n in SIZES}))
                sink(group.residual("513"))


def run_tables(sink: Sink) -> None:
    """Select from tables of terms in every form: the top k of each tensor, and of all."""
    rng = np.random.default_rng(9)
    for dtype in DTYPES[::3]:
        for form in SUM_NAMES:
            given = [[rng.laplace(size=n).astype(dtype) for n in (*SIZES, 20_001)] for _ in range(3)]
            written = [[aligned(x.size, dtype) for x in given[0]] for _ in range(2)]
            addresses = np.array([addresses_of(arrays) for arrays in (*given, *written)]).T.copy()
            sizes, factors = np.array([x.size for x in given[0]]), np.array([0.9, 0.5, 0.8])
            table, guesses = (
                TermTable(addresses, sizes, factors, form, dtype),
                np.zeros(sizes.size, np.uint64),
            )
            sink(str(table.add()))
            for arrays in written[0 if form >= HEAVY_BALL else 1 :]:
                sink(np.concatenate(arrays))
            for _ in range(2):
                each = wc.selectors.TopK(0.05).select_each(table, guesses)
                sink(each.indices)
                sink(each.values)
            joint = wc.selectors.TopK(0.05).select_joint(table)
            sink(joint.indices)
            sink(joint.values)
            for arrays in written[0 if form >= HEAVY_BALL else 1 :]:
                sink(np.concatenate(arrays))
            joined = aligned(int(sizes.sum()), dtype)  # where sums begin anywhere in a cache line
            addresses[:, TOTAL] = joined.ctypes.data + table.starts[:-1] * dtype.itemsize
            at_two = int(np.array(2, dtype).view(f"u{dtype.itemsize}"))
            for low in (at_two, 1):
                swept = TermTable(addresses, sizes, factors, form, dtype).add_and_sweep(low)
                for x in (*swept, joined) if swept else ():
                    sink(x)


def run_outer_steps(sink: Sink) -> None:
    """Take steps of the outer optimizer of local updates."""
    rng = np.random.default_rng(10)
    for dtype in DTYPES[::3]:
        for size in (0, 1, 1023, 1024, 1025, 5000):
            for has_momentum, nesterov in ((0, False), (1, False), (1, True)):
                arrays = [rng.normal(size=(3, size)).astype(dtype) for _ in range(3)]
                factors, like = read_only(np.array([0.9, 0.7], dtype)), np.empty(0, dtype)
                rows = np.zeros((3, 5), np.int64)
                for number, column in enumerate((0, 2, 1) if has_momentum else (0, 2)):
                    rows[:, column] = addresses_of(list(arrays[number]))
                rows[:, 3] = size
                for rows[:, 4], first in ((0, 0), (1, 1)):
                    done = np.array([first])
                    take_outer_steps(read_only(rows), like, factors, nesterov, done)
                    for x in (arrays[0], arrays[2], done):
                        sink(x)
                    for mask in HUGE_BITS[np.dtype(dtype)], INFINITY_BITS[np.dtype(dtype)]:
                        for spoilt in (1, 1e38, np.nan):
                            arrays[1][1, -1:] = spoilt
                            sizes = read_only(rows[:, 3].copy())
                            given = read_only(rows[:, 2].copy()), sizes, nothing(UNSIGNED[like.itemsize])
                            sink(str(find_array(*given, mask)))
                    arrays[1][1, -1:] = 1


def run_streams(sink: Sink) -> None:
    """Add, take, scatter and clear past the caches, and sum over unions."""
    rng = np.random.default_rng(8)
    for dtype in DTYPES[::3]:
        for size in (1, 63, 64, 65, 1023, 1025, 5000, 2**14 + 3, stream.MIN_STREAMED // 4 + 3):
            a, b = (rng.laplace(size=size).astype(dtype) for _ in range(2))
            total = aligned(size, dtype)
            sink(str(stream.add_streamed(a, b, total)))
            where = np.sort(rng.choice(size, 1 + size // 10, replace=False)).astype(np.int32)
            values = stream.take(total, where)
            sink(values)
            sink(total)
            for first in (0, 1):
                out = np.ones(size, dtype)[first:]
                kept = where[where < out.size]
                stream.scatter_streamed(out, kept, values[: kept.size])
                sink(out)
            parts = [wc.SparseTensor(where, values, size), wc.SparseTensor(where[::2], values[::2], size)]
            for found in sum_sparse(parts, dtype, [1, 0.5]):
                sink("all" if found is None else found)
            for members in (where[::2], where[:0], where):
                sink(find_members(members, where))
    large = np.ones(stream.MIN_STREAMED + 3, np.uint8)
    stream.clear(large)
    sink(large)


@contextlib.contextmanager
def shared_out(count: int) -> Iterator[None]:
    """Share small arrays out among ``count`` threads."""
    settings = [(threads, "thread_count", lambda: count), (term_table, "MIN_ELEMENTS_PER_THREAD", 1)]
    settings += [(topk_exact, name, 1) for name in ("MIN_UNITS_PER_THREAD", "MIN_PARALLEL_CANDIDATES")]
    with contextlib.ExitStack() as stack:
        for module, name, value in settings:
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def run_shared_out(sink: Sink) -> None:
    """Select and take steps on three threads."""
    with shared_out(3):
        for part in (run_selectors, run_steps, run_tables):
            part(sink)


HALVES = {
    "codecs": (
        *(run_index_codecs, run_value_codecs, run_long_values, run_refusals, run_long_extensions),
        run_patches,
    ),
    "tensors": (
        *(run_selectors, run_budgets, run_transforms, run_steps, run_many, run_tables, run_streams),
        *(run_shared_out, run_outer_steps),
    ),
}
"""Parts of the corpus, in two halves whose kernels take about as long to compile."""


def run(halves: Sequence[str] = tuple(HALVES)) -> str:
    """Run halves of the corpus, and return a digest of all results in hexadecimal."""
    digest = hashlib.sha256()

    def sink(found: Any) -> None:
        digest.update(found.encode() if isinstance(found, str) else np.ascontiguousarray(found).tobytes())

    for half in halves:
        for part in HALVES[half]:
            part(sink)
    return digest.hexdigest()


def kernels() -> dict[str, Any]:
    """Return every kernel of the folder by ``module.function``; inlined helpers are no kernels.

    A family has a kernel per form.
    """
    found = {}
    folder = wirecodec.kernels.cpu
    for info in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
        module = importlib.import_module(info.name)
        for name, each in list_members(module):
            own = getattr(each, "__module__", "") == module.__name__ and hasattr(each, "signatures")
            if own and getattr(each._cache, "cache_path", None):
                found[f"{info.name.removeprefix(folder.__name__)[1:]}.{name}"] = each
    return found


def list_members(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and the members of a module, and those of its families."""
    for name, each in vars(module).items():
        if isinstance(each, Family):
            yield from ((f"{name}[{each.names[form]}]", each[form]) for form in each.names)
        else:
            yield name, each


def unused_kernels() -> list[str]:
    """Return the kernels that no part of the corpus has called so far."""
    return [name for name, each in kernels().items() if not each.signatures]


def main(halves: Sequence[str]) -> None:
    """Run halves of the corpus, then once more with guard pages if ``guard.c`` is loaded.

    Print the kernels that were not reached, a line each. A kernel from the disk cache brings along those that
    it calls, so the lines are right only if the cache was cold.
    """
    plain = run(halves)
    if "guard.so" in os.environ.get("LD_PRELOAD", ""):
        allocator = guard_memory()  # kernels are loaded by now
        guarded = run(halves)
        allocator.guard_on(0)
        assert guarded == plain
        assert allocator.guard_count() > 10_000
    print(*unused_kernels(), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:] or tuple(HALVES))
