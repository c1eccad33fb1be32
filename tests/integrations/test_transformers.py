"""Feeds of weights with models of transformers, and with the folders of shards that they write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import collectives as co
import wirecodec as wc
from tests.integrations.pages import ROOT, read_script

transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")
torch: Any = pytest.importorskip("torch")
FOLLOW = read_script("weights.md", "follow_folder.py")
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def make_model(seed: int, *, tied: bool) -> Any:
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=200,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=tied,
    )
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16)


def train(model: Any) -> None:
    with torch.no_grad():
        for x in model.parameters():
            x.view(-1)[::50] *= 1.01


def outputs_of(model: Any) -> Any:
    with torch.no_grad():
        return model(torch.arange(10)[None]).logits


def is_same(a: Any, b: Any) -> bool:
    """Return whether two models have the same parameters."""
    pairs = zip(a.named_parameters(), b.named_parameters(), strict=True)
    return all(name == other and torch.equal(x, y) for (name, x), (other, y) in pairs)


def follow_folder(url: str, folder: Path) -> str:
    """Run the guide's script, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", FOLLOW, url, "run", str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout.strip()


def load(folder: Path) -> Any:
    return transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("base", ["read", "unread"])
def test_models_and_folders_follow_a_model(tmp_path: Path, tied: bool, base: str) -> None:
    url, folder = str(tmp_path / "store"), tmp_path / "model"
    trained, served = make_model(0, tied=tied), make_model(1, tied=tied)
    make_model(2, tied=tied).save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    publisher, reader = co.Publisher(url, "run", base=base), co.Subscriber(url, "run")
    weights = dict(served.named_parameters())
    for version in range(2):
        publisher.publish(dict(trained.named_parameters()))
        assert reader.update(weights) == version
        assert torch.equal(outputs_of(served), outputs_of(trained))
        assert follow_folder(url, folder) == f"version {version}"
        assert is_same(load(folder), trained)
        train(trained)
    assert reader.last is not None
    assert (reader.last["base"], reader.last["objects"]) == (0, 1)
    assert (served.lm_head.weight is served.model.embed_tokens.weight) == tied


def load_files(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return {name: x for file in sorted(folder.glob("*.safetensors")) for name, x in load_file(file).items()}


def test_a_tied_module_is_told_what_to_pass_for_a_patch_of_a_folder(tmp_path: Path) -> None:
    """Its state_dict has a name that the folder lacks; named_parameters has not."""
    folder = tmp_path / "model"
    source, served = make_model(0, tied=True), make_model(1, tied=True)
    source.save_pretrained(folder, max_shard_size="20KB")
    files = load_files(folder)
    assert HEAD not in files
    patch = wc.diff(dict(served.named_parameters()), files)
    before = outputs_of(served)
    remedy = rf"'{HEAD}' and '{EMBEDDING}' share memory: .* as dict\(module\.named_parameters\(\)\) does"
    with pytest.raises(ValueError, match=remedy):
        wc.apply(patch, served)
    assert torch.equal(outputs_of(served), before)
    wc.apply(patch, dict(served.named_parameters()))
    assert torch.equal(outputs_of(served), outputs_of(source))


@pytest.mark.parametrize("prepares", [False, True])
def test_a_tied_module_follows_the_weights_of_a_folder(tmp_path: Path, prepares: bool) -> None:
    """A feed of a folder's tensors has one name of the tied ones, and the module stays tied."""
    url, folder = str(tmp_path / "store"), tmp_path / "model"
    source, served = make_model(0, tied=True), make_model(1, tied=True)
    publisher, reader = co.Publisher(url, "run"), co.Subscriber(url, "run")
    for _ in range(2):
        source.save_pretrained(folder, max_shard_size="20KB")
        publisher.publish(load_files(folder))
        if prepares:
            reader.prepare(served).commit()
        else:
            reader.update(served)
        assert served.lm_head.weight is served.model.embed_tokens.weight
        assert torch.equal(outputs_of(served), outputs_of(source))
        train(source)


def test_a_folder_gets_both_names_of_a_tied_module(tmp_path: Path) -> None:
    """So the weights are right there, too, and the guide says how to save the bytes."""
    url, folder = str(tmp_path / "store"), tmp_path / "model"
    trained = make_model(0, tied=True)
    make_model(2, tied=True).save_pretrained(folder, max_shard_size="20KB")
    publisher, reader, files = co.Publisher(url, "run"), co.Subscriber(url, "run"), load_files(folder)
    for version in range(2):
        publisher.publish(trained)
        assert reader.update(files) == version
        assert torch.equal(files[HEAD], trained.lm_head.weight)
        assert torch.equal(files[EMBEDDING], trained.lm_head.weight)
        train(trained)
