"""Check of the model: real exchanges and steps between emulated hosts, beside their predictions.

All ranks share this machine's cores. So the model computes with as many ranks per core, and with the latency
and the bandwidth that blocks between neighbours have in the same run. The speed of a shared machine drifts,
so its rates are measured before and after each run.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.common.hosts import RATES, Hosts
from benchmarks.common.mpi import ENVIRONMENT, launch_ranks
from benchmarks.scale.prediction import compute_cost
from benchmarks.scale.rates import Rates, combine, read_rates
from benchmarks.scale.steps import LAYER_BYTES, OVERLAPPED, STEPS
from benchmarks.scale.systems import SYSTEMS, Options
from collectives.advise.cost_model import Network, Step, share_buckets

__all__ = ["CheckedTime", "Run", "Series", "compare", "run_rates", "run_systems"]


@dataclass(frozen=True)
class Run:
    """Time of a real exchange, or of a real training step.

    Attributes:
        model: its name.
        link: rate of the links, as asked for.
        network: as measured, with the number of ranks per core.
        system: its name.
        seconds: of an exchange, per step; or of a whole step.
        computing: seconds of a step without exchange, in turns with the others; 0 for an exchange.
    """

    model: str
    link: str
    network: Network
    system: str
    seconds: float
    computing: float = 0.0


@dataclass(frozen=True)
class Series:
    """Runs of all systems on one network.

    Attributes:
        rates: of their model, as measured before and after them.
        runs: the runs.
    """

    rates: Rates
    runs: Sequence[Run]


@dataclass(frozen=True)
class CheckedTime:
    """Prediction beside a measurement.

    Attributes:
        run: the measurement.
        predicted: seconds of an exchange, per step.
        sending: the part of it that bytes and messages take.
    """

    run: Run
    predicted: float
    sending: float

    @property
    def error(self) -> float:
        """Return the relative error of the prediction."""
        return self.predicted / self.run.seconds - 1

    @property
    def is_step(self) -> bool:
        """Return whether the run is one of whole training steps."""
        return self.run.model in STEPS

    @property
    def name(self) -> str:
        """Return the link, the number of ranks and the system as text."""
        return f"{self.run.link}, n = {self.run.network.ranks}, {self.run.system}"


def run_rates(model: str, options: Options, budget: float) -> Rates:
    """Measure the rates of a model on all cores at once, each in a process of its own, as ranks compute.

    Args:
        model: its name.
        options: of the systems.
        budget: approximate seconds per call.
    """
    plan = {"model": model, "options": dataclasses.asdict(options), "budget": budget}
    command = [sys.executable, "-m", "benchmarks.scale.rates", json.dumps(plan)]
    running = [
        subprocess.Popen(command, env=os.environ | ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        for _ in os.sched_getaffinity(0)
    ]
    printed = [each.communicate()[0] for each in running]
    if any(each.returncode for each in running):
        raise RuntimeError(f"the rates of {model} could not be measured")
    return combine([read_rates(text.splitlines()[-1]) for text in printed], statistics.fmean)


def run_systems(
    model: str,
    options: Options,
    *,
    ranks: tuple[int, ...],
    links: tuple[str, ...],
    budget: float,
    step: Callable[[str], None],
) -> Iterator[Series]:
    """Run all systems on emulated hosts.

    Args:
        model: name of a model that is measured as a whole, or of ``STEPS``.
        options: of the systems.
        ranks: numbers of hosts.
        links: keys of ``benchmarks.common.hosts.RATES``.
        budget: seconds per system; slow ones take up to five times as long.
        step: called with the name of each run before it starts.
    """
    before = run_rates(model, options, budget)
    for n in ranks:
        with Hosts(n) as hosts:
            for link in links:
                step(f"{link}, n = {n}")
                hosts.shape(RATES[link])
                runs = _run_link(hosts, link, model, options, budget, step)
                step(f"{link}, n = {n}: rates")
                after = run_rates(model, options, budget)
                yield Series(combine([before, after], statistics.fmean), runs)
                before = after


def _run_link(
    hosts: Hosts, link: str, model: str, options: Options, budget: float, step: Callable[[str], None]
) -> list[Run]:
    """Run all systems; the network is the median of those that were measured before each."""
    plan: dict[str, Any] = {"model": model, "options": dataclasses.asdict(options)}
    plan |= {"systems": STEPS.get(model, SYSTEMS), "budget": budget}
    found = []
    for record in launch_ranks(hosts, sys.executable, plan, 3600, "benchmarks.scale.rank"):
        step(f"{link}, n = {hosts.count}: {record['name']} done")
        found.append(record)
    network = Network(
        hosts.count,
        statistics.median(record["bandwidth"] for record in found),
        statistics.median(record["latency"] for record in found),
        max(1.0, hosts.count / len(os.sched_getaffinity(0))),
    )
    return [
        Run(model, link, network, record["name"], record["seconds"], record["computing"]) for record in found
    ]


def compare(run: Run, rates: Rates) -> CheckedTime:
    """Predict the time of a run from the rates of its model.

    A step computes as long as it does without exchange. With overlap, each bucket is exchanged on its own.
    """
    network, step = run.network, Step(run.computing)
    cost = compute_cost(OVERLAPPED.get(run.system, run.system), rates, network)
    if run.system in OVERLAPPED:
        step = Step(run.computing, overlap=True, pieces=share_buckets(LAYER_BYTES))
        cost = dataclasses.replace(cost, messages=len(step.pieces) * cost.messages)
    sending = cost.nbytes / network.bandwidth + cost.messages * network.latency
    return CheckedTime(run, step.seconds(cost.seconds(network)), sending)
