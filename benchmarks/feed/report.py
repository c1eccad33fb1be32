"""Page of feeds: the answer, targets, how it was measured, and a row per method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.common.results import format_markdown
from benchmarks.common.targets import format_targets
from benchmarks.feed.rows import Row
from benchmarks.feed.targets import PEER, READ, UNREAD, WHOLE, check_targets

__all__ = ["format_page"]

PICTURE = "![seconds of each method, and versions behind](feed.png)\n"
ABOUT = """A trainer makes steps of GRPO at a learning rate of {rate} on a byte transformer of {elements:,}
weights, with float32 masters and a cast to bfloat16 after each step. Whole weights have {nbytes:,} bytes. The
trainer publishes after every step, and starts a step every {interval:g} s, or later if the one before has not
ended. {rollouts} rollouts have links of {link}/s, without delay. One transfer of whole weights takes at least
{transfer:.1f} s on such a link. The store is an S3 server (localbucket) beside the trainer. All methods look
for a newer version every {poll:g} s.

The rollouts sample with the weights that they have. They pause after each token for {idle:g} × its time. A
thread fetches newer weights, and they are written between two tokens. After the last version, the weights of
each rollout have the bits of the trainer's.

The network is real TCP between namespaces of one machine. The trainer, the server, the rollouts and the links
share its {cores} cores, so computing takes longer than on machines of their own. Before the run, the load
average was {load:.1f}; other programs make all seconds longer. Each method was measured once, over {versions}
versions, after {warm_up} that are not counted. The training is the same for all methods. It is short, and the
model small: [the page of patches](patches.md) has more formats and other rates.
"""
COLUMNS = """Seconds are those from the end of a step until a rollout has these weights, or newer ones. They
include publishing, all requests and waiting for the next look. "Older" is the share of the time in which a
rollout's weights are older than the newest step. "Behind" is how many versions older they are, as a mean over
the time, and at most. The last column is the median time between the ends of two steps. It is longer than
{interval:g} s if the cores are busy, with transfers or with other programs. Then there are fewer versions,
and the share of the time is smaller.
"""
COSTS = """Bytes written are those of all objects of a version, as a mean. A feed also writes patches over 8
versions. Bytes read are those of a rollout per version. Requests are those of a rollout per update, with
looks that found nothing. Without these, an update takes {feed} requests in a feed, which lists the versions
first, and {others} in the others. Publishing is the time for which the trainer waits, and a pause the time
for which sampling waits, both as medians. Feeds check the bytes and the weights. The other methods check
nothing.
"""
FEED_REQUESTS, FILE_REQUESTS = 3, 2
"""Requests of an update by one version, without looks that found nothing; a test counts them."""


def format_page(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """Format the page as Markdown.

    Args:
        rows: of all methods.
        facts: of the run, as ``describe_run`` returns them.
    """
    times = [
        [
            row.method,
            f"{row.median:.2f}",
            f"{row.worst:.2f}",
            f"{100 * row.stale:.0f} %",
            f"{row.lag:.2f}",
            f"{row.most}",
            f"{row.step:.1f}",
        ]
        for row in rows
    ]
    costs = [
        [
            row.method,
            f"{row.written:,.0f}",
            f"{row.read:,.0f}",
            f"{row.requests:.1f}",
            f"{1e3 * row.publish:.0f}",
            f"{1e3 * row.pause:.1f}",
            f"{row.tokens:.1f}",
        ]
        for row in rows
    ]
    parts = [
        _format_answer(rows, facts["link"]),
        PICTURE,
        "## Targets\n",
        format_targets(check_targets(rows)),
    ]
    parts += ["## How it was measured\n", ABOUT.format(**facts)]
    parts += ["## Seconds and staleness\n", COLUMNS.format(**facts)]
    parts.append(
        format_markdown(["method", "median s", "worst s", "older", "behind", "at most", "s per step"], times)
    )
    parts += ["## Bytes and costs\n", COSTS.format(feed=FEED_REQUESTS, others=FILE_REQUESTS)]
    header = ["method", "bytes written", "bytes read", "requests", "publishing, ms", "pause, ms", "tokens/s"]
    parts.append(format_markdown(header, costs))
    parts += ["## Methods\n", format_markdown(["method", "what it does"], facts["methods"])]
    return "\n".join(parts)


def _format_answer(rows: Sequence[Row], link: str) -> str:
    """Answer the benchmark's question, if all methods were measured."""
    found = {row.method: row for row in rows}
    if not {WHOLE, PEER, READ, UNREAD} <= set(found):
        return "This run is partial.\n"
    whole, peer, read, unread = (found[name] for name in (WHOLE, PEER, READ, UNREAD))
    return (
        f"Over links of {link}/s, a rollout has the weights of a step {read.median:.1f} s after its end "
        f"(median; {read.worst:.1f} s at worst), if a feed brings patches, and {unread.median:.1f} s with "
        f"the base unread. With whole files, it takes {whole.median:.1f} s (median; {whole.worst:.1f} s at "
        f"worst). With {PEER}, which checks nothing, it takes {peer.median:.1f} s. Weights are older than "
        f"the newest step for {100 * read.stale:.0f} % of the time, and with whole files "
        f"{100 * whole.stale:.0f} %. A version takes {read.read / 1e3:,.0f} kB on a link, "
        f"{unread.read / 1e3:,.0f} with the base unread, {peer.read / 1e3:,.0f} with {PEER}, and "
        f"{whole.read / 1e3:,.0f} as a whole.\n"
    )
