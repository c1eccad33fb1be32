"""Page of ``wirecodec rounds``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from collectives.rounds.history import History, RoundRecord, Summary
from wirecodec.cli.formatting import escape, format_count, format_table, shorten
from wirecodec.cli.units import format_seconds

_HEADER = ("round", "members", "bytes per member", "decided after", "refused", "late", "missing")
_MAX_NAMES = 60
"""Characters of a list of names."""


def format_history(history: History) -> str:
    """Format the rounds as a table, with totals per peer."""
    rules = history.rules
    norm = "" if rules.max_norm is None else f", norm at most {rules.max_norm:g}"
    keys = "signed objects, which are not checked here" if rules.keys else "no keys"
    shown = f", the last {len(history.rounds)} below" if len(history.rounds) < history.total else ""
    title = (
        f"{escape(history.run)}: {format_count(history.total, 'round', 'rounds')} in the store{shown};"
        f" quorum {rules.quorum}{norm}; {keys}"
    )
    if not history.rounds:
        return title
    expected: Sequence[str] = ()
    rows = []
    for one in history.rounds:
        rows.append(_format_round(one, expected))
        expected = one.members or expected
    table = format_table(_HEADER, rows, left={4, 5, 6})
    return "\n".join([title, "", *table, "", *_format_peers(history.rounds)])


def format_runs(url: str, runs: Iterable[Summary]) -> str:
    """Format the runs in a folder as a table, with the command that shows one of them."""
    rows = [[escape(one.run), f"{one.total:,}", str(one.rules.quorum)] for one in runs]
    table = format_table(("run", "rounds", "quorum"), rows)
    return "\n".join([*table, "", f"wirecodec rounds {escape(url.rstrip('/'))}/RUN shows one of them"])


def _format_round(one: RoundRecord, expected: Sequence[str]) -> list[str]:
    """Return the cells of a round; ``expected`` are the members of the one before."""
    if one.members is None:
        waiting = _join(arrival.name for arrival in one.arrivals)
        return [str(one.number), "open", "-", "-", "-", "-", f"arrived: {waiting}" if waiting else "-"]
    sizes = one.sizes
    present = {*one.members, *one.refused, *one.late}
    return [
        str(one.number),
        str(len(one.members)) if one.members else "void",
        f"{sum(sizes) / len(sizes):,.0f}" if sizes else "deleted",
        "-" if one.decided is None else format_seconds(max(one.decided, 0.0)),
        _join(f"{name} ({code})" for name, code in sorted(one.refused.items())) or "-",
        _join(f"{name} ({_format_late(late)})" for name, late in sorted(one.late.items())) or "-",
        _join(name for name in expected if name not in present) or "-",
    ]


def _format_peers(rounds: Iterable[RoundRecord]) -> list[str]:
    """Return a table of all peers: rounds in which each counted, was refused or was late, and its bytes."""
    counted: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    late: Counter[str] = Counter()
    sent: Counter[str] = Counter()
    for one in rounds:
        counted.update(one.members or ())
        refused.update(one.refused.keys())
        late.update(one.late.keys())
        for arrival in one.arrivals:
            sent[arrival.name] += arrival.size
    rows = [
        [shorten(escape(name), _MAX_NAMES), *(f"{x[name]:,}" for x in (counted, refused, late, sent))]
        for name in sorted({*counted, *refused, *late, *sent})
    ]
    return format_table(("peer", "counted", "refused", "late", "bytes in the store"), rows)


def _format_late(seconds: float | None) -> str:
    return "late" if seconds is None else f"{format_seconds(max(seconds, 0.0))} late"


def _join(names: Iterable[str]) -> str:
    return shorten(escape(", ".join(names)), _MAX_NAMES)
