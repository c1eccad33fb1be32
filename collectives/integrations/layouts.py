"""Layouts in which others send changes of weights: messages of verl, payloads of NeMo RL, folders of slime.

Writers take ``co.Update.changes()`` and the state before its commit: {name: contiguous torch tensor, on the
host}. Readers raise ValueError before they write into it. Sources of August 2026: verl 1dda039,
delta_loader.py; slime 624b824, disk_delta.py; NeMo RL 7ea279a, weight_transfer_sparse_codec.py.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zstandard

_SIGNED = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_compress = zstandard.ZstdCompressor(level=1).compress
_INDEX = "model.safetensors.index.json"


def write_verl(changes: Iterable[Any], state: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a message of verl per tensor, which ``apply_delta`` takes. Raises ValueError."""
    for name, positions, values in changes:
        if positions.dtype != torch.int32 or bool(values.isnan().any()):
            raise ValueError(f"tensor {name!r} has a new NaN, or 2^31 elements, which verl cannot carry")
        packed, n = positions.to(torch.int32).contiguous().view(torch.uint8), int(values.numel())
        ends = {"pos_start": 0, "pos_end": 4 * n, "pos_width": 4, "val_start": 0, "val_end": n}
        spec = {"params": [_describe(name, state[name]) | ends], "checksum": _hash(packed, values)}
        row = torch.tensor([*json.dumps(spec | {"encoding": "indices"}).encode()], dtype=torch.uint8)
        yield {"__delta_spec__": row, "__positions__": packed, "__values__": values}


def read_verl(message: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Apply a message of verl with changes; its first ones, with all weights, are refused."""
    spec, found = json.loads(bytes(message["__delta_spec__"].numpy())), []
    packed, values = message.get("__positions__"), message["__values__"]
    if spec["encoding"] != "indices" or packed is None or spec["checksum"] != _hash(packed, values):
        raise ValueError(f"the message of verl has encoding {spec['encoding']!r}, or another checksum")
    for row in spec["params"]:
        at = packed.numpy()[row["pos_start"] : row["pos_end"]].view("<i4")
        found.append((row, at, _words_of(values)[row["val_start"] : row["val_end"]], False))
    _apply(found, state)


def write_nemo(changes: Iterable[Any], state: Mapping[str, Any]) -> bytes:
    """Write a payload of NeMo RL, with XOR."""
    gaps, values, rows, end = [torch.empty(0, dtype=torch.uint8)], list[Any](), list[dict[str, Any]](), 0
    for name, positions, new in changes:
        at = positions.numpy().astype(np.int64)
        between = np.diff(at, prepend=-1) - 1
        packed = between.astype("<u2" if between.max(initial=0) < 2**16 else "<u4").view(np.uint8)
        ends = {"index_start": end, "index_end": (end := end + packed.size), "index_encoding": "deltas"}
        group = {"value_group": len(values), "value_start": 0, "value_end": at.size, "operation": "xor"}
        rows.append(_describe(name, state[name]) | ends | group)
        gaps.append(torch.from_numpy(packed))
        words = _words_of(new) ^ _words_of(state[name])[at]
        values.append(torch.from_numpy(words).view(_SIGNED[words.itemsize]))
    file = io.BytesIO()
    torch.save((torch.cat(gaps), tuple(values), rows), file)
    return _compress(file.getvalue())


def read_nemo(data: bytes, state: Mapping[str, Any]) -> None:
    """Apply a payload of NeMo RL, which has no checksum: with XOR, a second time reverts the first one."""
    limit, found = 2**24 + 16 * sum(tensor.nbytes for tensor in state.values()), []
    gaps, groups, rows = torch.load(io.BytesIO(_decompress(data, limit)), weights_only=True)
    for row in rows:
        words = _words_of(groups[row["value_group"]])[row["value_start"] : row["value_end"]]
        at = np.arange(words.size) + row.get("range_start", 0)
        if row["index_encoding"] != "range":
            raw = gaps.numpy()[row["index_start"] : row["index_end"]]
            at = np.cumsum(raw.view(f"<u{raw.size // max(words.size, 1) or 2}").astype(np.int64) + 1) - 1
        found.append((row, at, words, row["operation"] == "xor"))
    _apply(found, state)


def write_slime(folder: Path, changes: Iterable[Any], state: Mapping[str, Any], version: int) -> None:
    """Write a folder of slime, with XOR and Adler-32; it needs safetensors."""
    from safetensors.numpy import save_file

    sections, sums = dict[str, Any](), dict[str, str]()
    for name, positions, values in changes:
        old, new = _words_of(state[name]), _words_of(state[name]).copy()
        new[positions.numpy()] = _words_of(values)
        sections[name] = np.frombuffer(_compress((old ^ new).tobytes()), np.uint8)
        sums[name] = f"{zlib.adler32(new.tobytes()):08x}"
    head = {"version": f"{version:06d}", "base_version": f"{version - 1:06d}", "compression_format": "zstd"}
    head |= {"delta_encoding": "xor", "checksum_format": "adler32"}
    folder.mkdir(parents=True)
    save_file(sections, folder / (file := "model-00000-of-00001.safetensors"), metadata=sums)
    (folder / _INDEX).write_text(json.dumps({"metadata": head, "weight_map": dict.fromkeys(sections, file)}))


def read_slime(folder: Path, state: Mapping[str, Any]) -> None:
    """Apply a folder of slime, with XOR and Adler-32; it needs safetensors."""
    from safetensors import safe_open

    index, found = json.loads((folder / _INDEX).read_text()), []
    kinds = [index["metadata"][kind] for kind in ("delta_encoding", "checksum_format")]
    if kinds != ["xor", "adler32"]:
        raise ValueError(f"{folder} has {kinds}; run slime with --update-weight-delta-checksum adler32")
    for file in sorted({*index["weight_map"].values()}):
        with safe_open(folder / file, "np") as opened:
            for name, expected in (opened.metadata() or {}).items():
                old = _words_of(own := state.get(name, torch.empty(0)))
                words = np.frombuffer(_decompress(opened.get_tensor(name).tobytes(), old.nbytes), old.dtype)
                if words.size != old.size or f"{zlib.adler32((old ^ words).tobytes()):08x}" != expected:
                    raise ValueError(f"tensor {name!r} gets another checksum; does the state have the base?")
                found.append((_describe(name, own), np.arange(old.size), words, True))
    _apply(found, state)


def _apply(found: list[Any], state: Mapping[str, Any]) -> None:
    """Write words at positions, which must ascend, or XOR them: (row, positions, words, whether to XOR)."""
    for row, at, words, _ in found:
        own = state.get(row["name"], torch.empty(0))
        given = {**row, "shape": [*row["shape"]]}
        ascends = at.size == words.size and (np.diff(at, prepend=-1) > 0).all()
        fits = given | _describe(row["name"], own) == given and words.dtype == _words_of(own).dtype
        if not (ascends and fits) or at.max(initial=-1) >= own.numel():
            raise ValueError(f"the state has no tensor for {given}, or its positions do not ascend")
    for row, at, words, is_xor in found:
        own = _words_of(state[row["name"]])
        own[at] = own[at] ^ words if is_xor else words


def _describe(name: str, tensor: Any) -> dict[str, Any]:
    return {"name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": [*tensor.shape]}


def _words_of(tensor: Any) -> Any:
    bits = tensor.detach().view(-1).view(_SIGNED[tensor.element_size()]).numpy()
    return bits.view(f"u{bits.itemsize}")


def _decompress(data: bytes, limit: int) -> bytes:
    if not 0 <= zstandard.frame_content_size(data) <= limit:
        raise ValueError(f"a frame of Zstandard has no size, or more than {limit} bytes")
    return zstandard.ZstdDecompressor().decompress(data)


def _hash(positions: Any, values: Any) -> int:
    one, other = (int(torch.hash_tensor(x).item()) if x.numel() else 0 for x in (positions, values))
    return one ^ (other << 1)
