"""Page of ``wirecodec advise``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from collectives.advise.cost_model import Network
from collectives.advise.prediction import NEARLY, Advice, Prediction
from wirecodec.cli.formatting import format_table
from wirecodec.cli.units import format_bandwidth, format_seconds
from wirecodec.comparison.table import ERROR

_ALGORITHMS = {
    "allgather": "all-gather of the encodings; every rank decodes and sums them",
    "narrow": "all-reduce of the values in their shorter type",
    "clt-k": "one rank's indices for all (collectives.CLTk); the error is that rank's, the others' is larger",
    "ok-topk": "owners of ranges sum what the ranks select, and choose again (collectives.OkTopK); the error "
    "is that of one rank's selection",
    "factors": "PowerSGD's factors are summed like dense vectors (torch's hook, not this library)",
    "split": "each rank sums one range of the stored elements, and sends the sums to the others",
    "decoded": "encode and decode, then a dense all-reduce",
}


_DEFAULT = "budget(0.25) | rice | error-bounded"
_BEGIN = f'To train, begin with {_DEFAULT} and scope="group", as the README does.'
_LONG_WAIT = 0.25
"""Share of a step from which an exchange at each step is too slow, and local updates are worth a try."""
_LOCAL = "~ changes the training: an exchange every few steps (collectives.LocalUpdates), in time per step."
_BUDGET = 'A budget selects from all tensors as from one vector: Compressor("budget(…) | …", scope="group").'


def format_advice(advice: Advice, name: str, *, other_ranks: Sequence[int] = ()) -> str:
    """Format a comparison as plain text.

    Args:
        advice: the comparison.
        name: of the gradient.
        other_ranks: numbers of ranks for which to show the pick.

    Returns:
        Lines without a newline at the end.
    """
    network, dense, predictions = advice.network, advice.dense, advice.predictions
    whole = ["step", "waits"] if advice.step.compute else []
    columns = ["", "scheme", "error", "ratio", "exchange", *whole, "speed-up", "algorithm", "pays"]
    parts = ["scheme", "bytes", "select", "encode", "decode", "rest", "sending", "least ratio"]
    algorithms = {prediction.cost.algorithm.partition(",")[0] for prediction in predictions}
    outcomes = [_outcome(prediction, advice) for prediction in predictions]
    lines = [
        f"{name}: {predictions[0].measurement.elements:,} elements; {network.ranks} ranks at "
        f"{format_bandwidth(network.bandwidth)}, {format_seconds(network.latency)} per message"
        f"{'' if advice.step.compute else '; exchanges alone, --compute compares steps'}",
        *_describe_step(advice),
        *_explain_pick(advice),
        *_explain_pays(advice),
        "",
        *format_table(columns, outcomes, {0, 1}),
        *_explain_marks(advice),
        "",
        *format_table(parts, [_parts(prediction, network) for prediction in predictions]),
        "",
        f"dense all-reduce of {advice.gradient.nbytes:,} bytes: {format_seconds(dense.seconds(network))}, "
        f"{format_seconds(dense.nbytes / network.bandwidth)} of it sending",
        *_describe_dense_step(advice),
        *_ranks_table(advice, other_ranks),
        *([f"left out, like one of the above: {'; '.join(advice.alike)}"] if advice.alike else []),
        *(f"excluded: {scheme}: {reason}" for scheme, reason in advice.excluded),
        *(f"{name}: {meaning}" for name, meaning in _ALGORITHMS.items() if name in algorithms),
        ERROR,
        f"Assumes that every rank is a machine like this one, with {_threads()} and no other load, and",
        "that it sends and receives at once. 'decode' covers all encodings that a rank decodes, 'rest' the",
        "vector of sums and the latencies. Times and errors are measured; accuracy after training is not.",
        *_explain_begin(advice),
    ]
    return "\n".join(lines)


def _mark(advice: Advice, prediction: Prediction) -> str:
    """Return the mark of a row: "*" for the pick, ">" for an error above the bound."""
    if prediction is advice.pick:
        return "*"
    if prediction.changes_training:
        return "~"
    return "" if advice.accepts(prediction) else ">"


def _describe_step(advice: Advice) -> list[str]:
    """Return the line about what a step computes, if that is given."""
    step = advice.step
    if not step.compute:
        return []
    when = f"during backward, in {len(step.pieces)} buckets" if step.overlap else "after them"
    return [f"forward and backward take {format_seconds(step.compute)}; gradients are exchanged {when}"]


def _describe_dense_step(advice: Advice) -> list[str]:
    step = advice.step
    if not step.compute:
        return []
    seconds = step.seconds(advice.dense.seconds(advice.network))
    waits = 1 - step.compute / seconds
    return [f"a step with it: {format_seconds(seconds)}, {waits:.0%} of it waiting"]


def _outcome(prediction: Prediction, advice: Advice) -> list[str]:
    """Format the row of a scheme: the exchange, and the step if its computing is given."""
    measurement, compute = prediction.measurement, advice.step.compute
    waits = _find_waits(prediction, advice)
    whole = [format_seconds(prediction.step_seconds), f"{waits:.0%}"] if compute else []
    return [
        _mark(advice, prediction),
        measurement.scheme,
        f"{measurement.error:.3g}",
        f"{measurement.ratio:.1f}",
        format_seconds(prediction.seconds),
        *whole,
        f"{prediction.speed_up:.2f}",
        prediction.cost.algorithm,
        " and ".join(map(_format_interval, prediction.intervals)) or "nowhere",
    ]


def _find_waits(prediction: Prediction, advice: Advice) -> float:
    """Return the share of a step in which it does not compute."""
    return 1 - advice.step.compute / prediction.step_seconds if prediction.step_seconds else 0.0


def _parts(prediction: Prediction, network: Network) -> list[str]:
    """Format the row of a scheme: the parts of the exchange."""
    stages, cost = prediction.measurement.stages, prediction.cost
    decode = stages.decode * (network.ranks if cost.algorithm.startswith("allgather") else 1)
    select, encode, decode = (part / stages.every for part in (stages.select, stages.encode, decode))
    rest = cost.fixed_seconds(network) - select - encode - decode
    return [
        prediction.measurement.scheme,
        f"{stages.nbytes:,}",
        format_seconds(select),
        format_seconds(encode),
        format_seconds(decode),
        format_seconds(max(rest, 0.0)),
        format_seconds(cost.nbytes / network.bandwidth),
        "none" if prediction.min_ratio == math.inf else f"{prediction.min_ratio:.2f}",
    ]


def _format_interval(interval: tuple[float, float]) -> str:
    low, high = interval
    ends = [f"above {format_bandwidth(low)}"] if low else []
    ends += [f"below {format_bandwidth(high)}"] if high < math.inf else []
    return ", ".join(ends) or "everywhere"


def _explain_pick(advice: Advice) -> list[str]:
    """State the scheme to take; local updates are none."""
    pick, bound = advice.pick, advice.max_error
    if all(prediction.changes_training for prediction in advice.predictions):
        return []
    if pick is None:
        return [f"No scheme has an error of at most {bound:g}; --max-error sets the bound."]
    limit = "" if bound == math.inf else f" with an error of at most {bound:g}"
    which, dense = f"is the fastest{limit}", "the dense all-reduce"
    if advice.step.compute:
        which = (
            f"has the least error of the steps{limit} that take at most {NEARLY:.0%} longer than the fastest"
        )
        dense = "a step with the dense all-reduce"
    return [
        f"* {which}: {pick.measurement.scheme}, {pick.speed_up:.2f} times as fast as {dense}, "
        f"error {pick.measurement.error:.3g}."
    ]


def _explain_marks(advice: Advice) -> list[str]:
    """Explain the marks of the rows that cannot be the pick, and the rows of budgets."""
    same = [p for p in advice.predictions if not p.changes_training]
    lines = [] if all(map(advice.accepts, same)) else [f"> has an error above {advice.max_error:g}."]
    lines += [_LOCAL] if len(same) < len(advice.predictions) else []
    is_budget = any(p.measurement.scheme.startswith(("budget", "bytes_per_step")) for p in same)
    return [*lines, *([_BUDGET] if is_budget else [])]


def _explain_pays(advice: Advice) -> list[str]:
    tried = len(advice.predictions)
    n = sum(prediction.pays for prediction in advice.predictions)
    if n:
        first = f"{n} of {tried} schemes {'pays' if n == 1 else 'pay'}."
    else:
        first = f"{'The scheme does not pay' if tried == 1 else f'None of {tried} schemes pays'}. "
        first += _explain_nearest(advice)
    if always := sum(p.intervals[-1][1] == math.inf for p in advice.predictions if p.intervals):
        they = "1 pays: it computes" if always == 1 else f"{always} pay: they compute"
        return [f"{first} However fast the network, {they} less than the dense all-reduce."]
    if advice.max_bandwidth:
        return [f"{first} From {format_bandwidth(advice.max_bandwidth)} on none pays."]
    return [f"{first} None pays at any bandwidth."]


def _explain_begin(advice: Advice) -> list[str]:
    """State the scheme to begin with, and the next one to try if its steps wait."""
    pick = advice.pick
    if pick is None:
        return []
    text = [_BEGIN]
    if pick.measurement.scheme != _DEFAULT:
        text.append("Take *, the pick for the time of one step, if steps still wait.")
    if advice.step.compute and (waits := _find_waits(pick, advice)) > _LONG_WAIT:
        mark = " (~)" if any(p.changes_training for p in advice.predictions) else ""
        text.append(f"Steps with * wait for {waits:.0%} of their time: try local updates{mark} as well.")
    return [" ".join(text)]


def _explain_nearest(advice: Advice) -> str:
    """State the ratio from which the scheme nearest to paying would pay."""
    near = min(advice.predictions, key=lambda p: (p.min_ratio / p.measurement.ratio, p.seconds))
    if near.min_ratio == math.inf:
        return "None would at any ratio: computing alone takes longer than the dense all-reduce."
    return (
        f"The nearest is {near.measurement.scheme}: with its times a ratio above {near.min_ratio:.1f} would "
        f"pay, and its ratio is {near.measurement.ratio:.1f}."
    )


def _ranks_table(advice: Advice, other_ranks: Sequence[int]) -> list[str]:
    """Format the fastest scheme per number of ranks."""
    if not other_ranks:
        return []
    rows = []
    for ranks in other_ranks:
        other = advice.with_ranks(ranks)
        n, best = sum(prediction.pays for prediction in other.predictions), other.pick or other.predictions[0]
        rows.append([str(ranks), str(n), f"{best.speed_up:.2f}", best.measurement.scheme])
    title = "fastest" if advice.pick is None or advice.max_error == math.inf else "fastest within the bound"
    title = "*, for these ranks" if advice.step.compute and advice.pick else title
    return ["", *format_table(["ranks", "schemes that pay", "speed-up", title], rows, {3}), ""]


def _threads() -> str:
    import numba

    n: Any = numba.get_num_threads()
    return f"{n} thread" + ("s" if n > 1 else "")
