"""Sites: two sites of two ranks each, with one shaped link between the sites.

Each site is an emulated host, whose ranks exchange in memory. All ranks average the same gradients, in turn:
as four equal ranks (flat), and over ``Sites``; compressed and dense. It counts the bytes that leave a site,
and writes results/sites.md. It needs torch, and root for the network namespaces.

    python -m benchmarks.collectives.sites [--rate "100 Mbit"] [--rounds 7]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.common.command import create_parser
from benchmarks.common.hosts import RATES, Hosts, Shape, find_missing_tools
from benchmarks.common.ranks import is_rank, run_ranks, run_torch_rank
from benchmarks.common.results import format_markdown, write_result

__all__ = ["main"]

SITES, RANKS = 2, 2
LINKS = {"10 Mbit": Shape("10mbit", 1e7, 10 << 10, 8000), **RATES}
SHAPES = {f"layer{i}.weight": (1000, 1000) for i in range(10)} | {
    f"layer{i}.bias": (1000,) for i in range(10)
}
SCHEME = "topk(0.01) | rice | raw(bfloat16)"
DENSE = "all | raw-index | raw"
MIN_DENSE = 1e8
"""Bits per second below which dense gradients are not sent: a round would take minutes."""
MODULE = "benchmarks.collectives.sites"
_COUNTER = Path("/sys/class/net/eth0/statistics/tx_bytes")


def main() -> None:
    """Run the ranks on both hosts, and write the table of rank 0."""
    parser = create_parser(__doc__, MODULE)
    parser.add_argument("--rate", action="append", choices=LINKS, help="by default 10 and 100 Mbit")
    parser.add_argument("--rounds", type=int, default=7, help="of exchanges (default: %(default)s)")
    options = parser.parse_args()
    if reason := find_missing_tools():
        sys.exit(f"no shaped links: {reason}")
    rows = []
    for rate in options.rate or ["10 Mbit", "100 Mbit"]:
        with Hosts(SITES) as hosts:
            hosts.shape(LINKS[rate])
            plan = {"rounds": options.rounds, "dense": LINKS[rate].bits >= MIN_DENSE}
            places = [host for host in hosts.names for _ in range(RANKS)]
            found = run_ranks(MODULE, plan, places, environment={"LOCAL_WORLD_SIZE": str(RANKS)})
        for name, (seconds, lowest, highest, nbytes) in found.items():
            flat = found[name.replace("Sites", "flat")]
            spread = f"{1e3 * lowest:.0f}-{1e3 * highest:.0f}"
            ratios = f"{flat[0] / seconds:.2f} x", f"{flat[3] / nbytes:.2f} x"
            rows.append([f"{rate}, {name}", f"{1e3 * seconds:.0f}", spread, f"{nbytes / 1e3:,.0f}", *ratios])
            print("  ".join(rows[-1]), flush=True)
    header = ["link, exchange", "ms", "lowest-highest", "kB leave a site", "time, flat / this", "bytes"]
    elements = sum(int(np.prod(shape)) for shape in SHAPES.values())
    text = (
        f"{format_answer(rows)}{SITES} sites of {RANKS} ranks, {elements / 1e6:.1f}M float32 in "
        f"{len(SHAPES)} tensors, gloo. The ranks of a site share its link. Compressed: `{SCHEME}`. Dense: "
        f'`{DENSE}`; flat, as algorithm "dense". Bytes are those of one site\'s interface for one exchange, '
        "with all headers. The last columns are ratios of flat to this row. Medians of "
        f"{options.rounds} rounds, in which the exchanges alternate. Within a site, dense gradients pass "
        "gloo's loopback connections, on cores that all four ranks share: a slow inner link, so compressed "
        "exchanges over Sites gain time only at low rates.\n\n" + format_markdown(header, rows)
    )
    write_result("sites", "Sites: two sites of two ranks", text)


def format_answer(rows: Sequence[Sequence[str]]) -> str:
    """Answer the benchmark's question with the compressed exchanges of each link."""
    found = [row for row in rows if row[0].endswith("Sites, compressed")]
    links = " and ".join(
        f"{row[4].removesuffix(' x')} times as long at {row[0].split(',')[0]}" for row in found
    )
    return (
        f"A flat compressed exchange takes {links} as one over Sites. Its bytes on a site's link are "
        f"{found[0][5].removesuffix(' x')} times as many.\n\n"
        if found
        else ""
    )


def _measure(plan: Mapping[str, Any]) -> dict[str, list[float]]:
    """Measure on one rank; return {name: [median, lowest, highest in seconds, bytes]}."""
    import torch.distributed as dist

    import collectives as co
    import wirecodec as wc

    rng = np.random.default_rng(dist.get_rank())
    grads = {name: rng.laplace(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    out = {name: np.empty_like(x) for name, x in grads.items()}
    comms: dict[str, Any] = {"flat": co.TorchComm(), "Sites": co.Sites.of()}
    cases = [(kind, scheme) for scheme in ("compressed", "dense")[: 1 + plan["dense"]] for kind in comms]
    compressors = {case: wc.Compressor(SCHEME if case[1] == "compressed" else DENSE) for case in cases}
    times: dict[str, list[float]] = {}
    sizes: dict[str, list[int]] = {}
    for turn in range(plan["rounds"] + 2):  # the first ones compile, and measure the link
        for case in cases:
            kind, scheme = case
            algorithm = "auto" if scheme == "compressed" else "dense"
            dist.barrier()
            before, start = int(_COUNTER.read_text()), perf_counter()
            co.allreduce(comms[kind], grads, compressors[case], algorithm=algorithm, out=out)
            dist.barrier()
            seconds, sent = perf_counter() - start, int(_COUNTER.read_text()) - before
            if turn >= 2:
                times.setdefault(f"{kind}, {scheme}", []).append(seconds)
                sizes.setdefault(f"{kind}, {scheme}", []).append(sent)
    return {
        name: [float(np.median(all_)), min(all_), max(all_), float(np.median(sizes[name]))]
        for name, all_ in times.items()
    }


if __name__ == "__main__":
    run_torch_rank(_measure) if is_rank() else main()
