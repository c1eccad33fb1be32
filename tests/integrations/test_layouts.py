"""Layouts of verl, NeMo RL and slime, against bytes that are built and read as those projects do it."""

from __future__ import annotations

import io
import json
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

import collectives as co

torch: Any = pytest.importorskip("torch")
layouts: Any = pytest.importorskip("collectives.integrations.layouts")
State = dict[str, Any]


def make_states() -> tuple[State, State]:
    """Return weights of before and after: some changes far apart, in a row, at both ends, and of the sign."""
    torch.manual_seed(3)
    old: State = {
        "wide": torch.randn(300, 1000, dtype=torch.float32),
        "half": torch.randn(40, 30).to(torch.bfloat16),
        "bias": torch.zeros(7, dtype=torch.float16),
        "same": torch.ones(4),
    }
    new = {name: x.clone() for name, x in old.items()}
    for place in (0, 1, 70_000, 299_999):
        new["wide"].view(-1)[place] += 1
    new["half"][3:5] *= 1.5
    new["bias"][:] = -0.0
    return old, new


def bits_of(state: State) -> dict[str, Any]:
    return {name: (x.dtype, tuple(x.shape), bytes(x.view(-1).view(torch.uint8))) for name, x in state.items()}


def words_of(x: Any) -> list[int]:
    found: list[int] = x.view(-1).view({2: torch.int16, 4: torch.int32}[x.element_size()]).tolist()
    return found


def places_of(old: Any, new: Any) -> list[int]:
    return [i for i, (a, b) in enumerate(zip(words_of(old), words_of(new), strict=True)) if a != b]


def changes_of(tmp_path: Path, old: State, new: State) -> tuple[Any, State]:
    """Return the changes of an update of a feed, and the state that it was prepared for."""
    publisher, reader = (
        co.Publisher(str(tmp_path / "feed"), "run"),
        co.Subscriber(str(tmp_path / "feed"), "run"),
    )
    state = {name: x.clone() for name, x in old.items()}
    publisher.publish(old)
    reader.update(state)
    publisher.publish(new)
    return reader.prepare(state).changes, state


def hash_verl(x: Any) -> int:
    """XOR the elements: integers as they are, and floats as the bits of doubles."""
    wide = x.to(torch.float64).view(torch.int64) if x.is_floating_point() else x.to(torch.int64)
    found = 0
    for one in wide.tolist():
        found ^= one % 2**64
    return found


def receive_verl(message: State, model: State) -> None:
    """Make tensors of NaN and of the changes, and copy what is no NaN, as a worker of SGLang does."""
    spec = json.loads(bytes(message["__delta_spec__"].tolist()))
    positions, values = message["__positions__"], message["__values__"]
    assert spec["checksum"] == hash_verl(positions) ^ hash_verl(values) << 1
    for one in spec["params"]:
        whole = torch.full((math.prod(one["shape"]),), math.nan, dtype=getattr(torch, one["dtype"]))
        at = np.frombuffer(bytes(positions.tolist()), "<i4")[one["pos_start"] // 4 : one["pos_end"] // 4]
        whole[torch.from_numpy(at.astype(np.int64))] = values[one["val_start"] : one["val_end"]]
        target = model[one["name"]].view(-1)
        mask = ~whole.isnan()
        target[mask] = whole[mask]


def send_verl(old: State, new: State) -> list[State]:
    """Put the changes of the tensors of a type into one message, one after another."""
    messages = []
    for kind in {x.dtype for x in old.values()}:
        positions, values, params = b"", list[Any](), list[dict[str, Any]]()
        for name in (name for name, x in old.items() if x.dtype == kind):
            places = places_of(old[name], new[name])
            row: dict[str, Any] = {
                "name": name,
                "dtype": str(kind).split(".")[1],
                "shape": list(old[name].shape),
            }
            row |= {"pos_start": len(positions), "val_start": len(values), "pos_width": 4}
            positions += np.array(places, "<i4").tobytes()
            values += [new[name].view(-1)[place] for place in places]
            params.append(row | {"pos_end": len(positions), "val_end": len(values)})
        packed = torch.tensor(list(positions), dtype=torch.uint8)
        given = torch.stack(values) if values else torch.empty(0, dtype=kind)
        spec: dict[str, Any] = {"encoding": "indices", "params": params}
        spec["checksum"] = hash_verl(packed) ^ hash_verl(given) << 1
        text = torch.tensor(list(json.dumps(spec).encode()), dtype=torch.uint8)
        messages.append({"__delta_spec__": text, "__positions__": packed, "__values__": given})
    return messages


def receive_nemo(data: bytes, model: State) -> None:
    """Decode gaps one by one, as the staging of NeMo RL does, and XOR."""
    raw = zstandard.ZstdDecompressor().decompress(data)
    gaps, groups, rows = torch.load(io.BytesIO(raw), weights_only=True)
    for row in rows:
        words = groups[row["value_group"]][row["value_start"] : row["value_end"]].tolist()
        packed = bytes(gaps[row["index_start"] : row["index_end"]].tolist())
        width = len(packed) // len(words)
        assert width in (2, 4)
        target, place = model[row["name"]].view(-1), -1
        assert tuple(row["shape"]) == tuple(model[row["name"]].shape)
        own = target.view({2: torch.int16, 4: torch.int32}[target.element_size()])
        assert row["dtype"] == str(target.dtype).split(".")[1]
        for i, word in enumerate(words):
            place += int.from_bytes(packed[width * i : width * (i + 1)], "little") + 1
            own[place] = own[place].item() ^ word if row["operation"] == "xor" else word


def send_nemo(old: State, new: State, operation: str) -> bytes:
    """Group the values by their types; positions in a row are a range."""
    groups: dict[Any, list[int]] = {}
    gaps, rows = b"", list[dict[str, Any]]()
    for name, x in old.items():
        places = places_of(x, new[name])
        if not places:
            continue
        kind = {2: torch.int16, 4: torch.int32}[x.element_size()]
        own, a, b = groups.setdefault(kind, []), words_of(x), words_of(new[name])
        row: dict[str, Any] = {"name": name, "shape": tuple(x.shape), "dtype": str(x.dtype).split(".")[1]}
        row |= {"operation": operation, "value_group": list(groups).index(kind), "value_start": len(own)}
        own += [a[i] ^ b[i] if operation == "xor" else b[i] for i in places]
        row |= {"value_end": len(own), "index_start": len(gaps), "index_encoding": "range"}
        if places[-1] - places[0] + 1 == len(places):
            row["range_start"] = places[0]
        else:
            between = np.diff(places, prepend=-1) - 1
            gaps += between.astype("<u2" if between.max() < 2**16 else "<u4").tobytes()
            row["index_encoding"] = "deltas"
        rows.append(row | {"index_end": len(gaps)})
    values = tuple(torch.tensor(words, dtype=kind) for kind, words in groups.items())
    file = io.BytesIO()
    torch.save((torch.tensor(list(gaps), dtype=torch.uint8), values, rows), file)
    return zstandard.ZstdCompressor(level=1).compress(file.getvalue())


def xor_bytes(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))


def raw_of(x: Any) -> bytes:
    return x.view(-1).view(torch.uint8).numpy().tobytes()  # type: ignore[no-any-return]


def receive_slime(folder: Path, model: State) -> None:
    """XOR the bytes of all tensors of all files, and compare their checksums."""
    safetensors = pytest.importorskip("safetensors")
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    head = {"version": "000007", "base_version": "000006", "delta_encoding": "xor"}
    assert index["metadata"] == head | {"compression_format": "zstd", "checksum_format": "adler32"}
    for name, file in index["weight_map"].items():
        with safetensors.safe_open(folder / file, "np") as opened:
            delta = zstandard.ZstdDecompressor().decompress(opened.get_tensor(name).tobytes())
            made = xor_bytes(raw_of(model[name]), delta)
            assert f"{zlib.adler32(made):08x}" == opened.metadata()[name]
        model[name] = (
            torch.frombuffer(bytearray(made), dtype=torch.uint8)
            .view(model[name].dtype)
            .view(model[name].shape)
        )


def send_slime(folder: Path, old: State, new: State, checksum: str = "adler32") -> None:
    """Write a file per rank, each with some tensors."""
    save_file = pytest.importorskip("safetensors.numpy").save_file
    folder.mkdir()
    names = [name for name in old if raw_of(old[name]) != raw_of(new[name])]
    where: dict[str, str] = {}
    for number, part in enumerate((names[:1], names[1:])):
        file = f"model-{number:05d}-of-00002.safetensors"
        sums = {name: f"{zlib.adler32(raw_of(new[name])):08x}" for name in part}
        packed = {
            name: np.frombuffer(
                zstandard.ZstdCompressor(level=1).compress(xor_bytes(raw_of(old[name]), raw_of(new[name]))),
                "u1",
            )
            for name in part
        }
        save_file(packed, folder / file, metadata=sums)
        where |= dict.fromkeys(part, file)
    head: dict[str, str] = {"version": "000007", "base_version": "000006", "delta_encoding": "xor"}
    head |= {"compression_format": "zstd", "checksum_format": checksum}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": head, "weight_map": where}))


def test_verl_takes_the_messages(tmp_path: Path) -> None:
    old, new = make_states()
    changes, state = changes_of(tmp_path, old, new)
    model = {name: x.clone() for name, x in old.items()}
    messages = list(layouts.write_verl(changes(), state))
    for message in messages:
        receive_verl(message, model)
    assert len(messages) == 3
    assert bits_of(model) == bits_of(new)


def test_messages_of_verl_are_read() -> None:
    old, new = make_states()
    for message in send_verl(old, new):
        layouts.read_verl(message, old)
    assert bits_of(old) == bits_of(new)


def test_nemo_takes_the_payload(tmp_path: Path) -> None:
    old, new = make_states()
    changes, state = changes_of(tmp_path, old, new)
    receive_nemo(layouts.write_nemo(changes(), state), old)
    assert bits_of(old) == bits_of(new)


@pytest.mark.parametrize("operation", ["xor", "overwrite"])
def test_payloads_of_nemo_are_read(operation: str) -> None:
    old, new = make_states()
    layouts.read_nemo(send_nemo(old, new, operation), old)
    assert bits_of(old) == bits_of(new)


def test_slime_takes_the_folder(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    old, new = make_states()
    changes, state = changes_of(tmp_path, old, new)
    layouts.write_slime(tmp_path / "weight_v000007", changes(), state, 7)
    receive_slime(tmp_path / "weight_v000007", old)
    assert bits_of(old) == bits_of(new)


def test_folders_of_slime_are_read(tmp_path: Path) -> None:
    old, new = make_states()
    send_slime(tmp_path / "7", old, new)
    layouts.read_slime(tmp_path / "7", old)
    assert bits_of(old) == bits_of(new)
    with pytest.raises(ValueError, match="does the state have the base"):
        layouts.read_slime(tmp_path / "7", old)  # XOR reverts the second time
    assert bits_of(old) == bits_of(new)
    send_slime(tmp_path / "8", old, new, "blake3")
    with pytest.raises(ValueError, match="--update-weight-delta-checksum adler32"):
        layouts.read_slime(tmp_path / "8", old)


def change_spec(message: State, **fields: Any) -> State:
    spec = json.loads(bytes(message["__delta_spec__"].tolist()))
    spec["params"][0] |= fields
    return message | {"__delta_spec__": torch.tensor(list(json.dumps(spec).encode()), dtype=torch.uint8)}


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m | {"__positions__": m["__positions__"].flip(0)},
        lambda m: change_spec(m, shape=[8]),
        lambda m: change_spec(m, dtype="bfloat16"),
        lambda m: change_spec(m, name="other"),
        lambda m: change_spec(m, val_end=2),
    ],
)
def test_wrong_messages_change_nothing(change: Callable[[State], State]) -> None:
    old, new = make_states()
    del old["half"], old["wide"], old["same"]
    message = change(send_verl(old, new)[0])
    before = bits_of(old)
    with pytest.raises(ValueError, match=r"checksum|has no tensor"):
        layouts.read_verl(message, old)
    assert bits_of(old) == before


def test_positions_are_checked() -> None:
    """Those of another message ascend, and exceed the tensor."""
    old, new = make_states()
    payload = send_nemo({"wide": old["wide"]}, {"wide": new["wide"]}, "xor")
    small = {"wide": old["wide"][:2].clone()}
    with pytest.raises(ValueError, match="has no tensor"):
        layouts.read_nemo(payload, small)
    spec = change_spec(send_verl({"wide": old["wide"]}, {"wide": new["wide"]})[0], shape=[2, 1000])
    before = bits_of(small)
    with pytest.raises(ValueError, match="do not ascend"):
        layouts.read_verl(spec, small)
    assert bits_of(small) == before


def test_what_verl_cannot_carry_is_an_error() -> None:
    state = {"w": torch.zeros(3)}
    change = "w", torch.tensor([1], dtype=torch.int32), torch.tensor([math.nan])
    with pytest.raises(ValueError, match="new NaN"):
        list(layouts.write_verl([change], state))


def test_frames_of_nemo_are_bounded() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(2**26))
    with pytest.raises(ValueError, match="more than"):
        layouts.read_nemo(bomb, {"w": torch.zeros(3)})
