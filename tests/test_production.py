"""Each row of the guide to production has a test, which is named here; three of them are below."""

from __future__ import annotations

import ast
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import wirecodec as wc

ROOT = Path(__file__).parents[1]
TESTS = {
    "SIGTERM or SIGUSR1, before a job ends": "test_documents.py::test_blocks_that_need_a_framework_run",
    "a handler makes a collective call during": "collectives/test_nested.py::"
    "test_a_callback_of_each_exchange_is_refused",
    "Ctrl-C, or another exception": "collectives/test_interrupts.py::test_an_exception_at_some_calls",
    "SIGKILL, or no memory": "collectives/torch/test_dead_peer.py::"
    "test_the_others_raise_a_collective_error_that_names_the_dead_rank",
    "SIGSTOP, or a machine that hangs": "collectives/torch/test_timeout.py::"
    "test_the_group_s_timeout_is_the_default_and_a_timeout_names_the_missing_rank",
    "no folder can be written": "wirecodec/kernels/test_cache.py::test_without_a_folder_to_cache_in",
    "a limit of CPU time": "wirecodec/kernels/test_threads.py::test_numba_sets_the_number",
    "the first request meets 8 threads": "wirecodec/kernels/test_cache.py::test_decoding_in_threads",
    "threads encode and decode": "wirecodec/test_threads.py::"
    "test_threads_give_the_bytes_and_the_tensors_of_one",
    "threads compress": "test_production.py::test_threads_with_compressors_of_their_own",
    "a fork after encoding": "wirecodec/kernels/test_threads.py::test_after_a_fork_and_at_exit",
    "a fork with a communicator": "collectives/test_forks.py::test_every_call_over_a_channel_is_refused",
    "a fork with a store or a feed": "collectives/test_forks.py::test_every_call_of_a_feed_is_refused",
    "a fork or a pickle of a `Compressor`": "test_production.py::test_a_pickled_compressor_is_a_copy",
}
"""The test of each row, by the start of its first cell."""

SCHEMES = ("topk(0.1) | rice | raw", "budget(0.25) | rice | error-bounded")


def test_each_row_has_a_test() -> None:
    text = (ROOT / "docs/guides/production.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!event \|)(?!-)([^|]+) \|", text, re.MULTILINE)
    assert len(rows) == len(TESTS)
    for row, (start, name) in zip(rows, TESTS.items(), strict=True):
        assert row.startswith(start)
        path, _, function = name.partition("::")
        module = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        assert function in {node.name for node in module.body if isinstance(node, ast.FunctionDef)}, name


def _steps(scheme: str) -> list[bytes]:
    """Return the containers of three steps."""
    compressor = wc.Compressor(scheme)
    draw = np.random.default_rng(0)
    return [bytes(compressor.compress({"w": draw.normal(size=50_000).astype(np.float32)})) for _ in range(3)]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_threads_with_compressors_of_their_own(scheme: str) -> None:
    alone = _steps(scheme)
    with ThreadPoolExecutor(4) as pool:
        assert all(steps == alone for steps in pool.map(_steps, [scheme] * 8))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_pickled_compressor_is_a_copy(scheme: str) -> None:
    compressor = wc.Compressor(scheme)
    gradient = np.random.default_rng(0).normal(size=50_000).astype(np.float32)
    compressor.compress({"w": gradient})
    copy = pickle.loads(pickle.dumps(compressor))
    kept = copy.residual("w").copy()
    expected = compressor.compress({"w": gradient})
    assert np.array_equal(copy.residual("w"), kept)  # the other one's step left it alone
    assert bytes(copy.compress({"w": gradient})) == bytes(expected)
