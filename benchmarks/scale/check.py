"""Check of the model: real exchanges between emulated hosts, beside the predictions for their network.

All ranks share this machine's cores. So the model computes with as many ranks per core, and with the latency
and the bandwidth that blocks between neighbours have in the same run.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.collectives.hosts import RATES, Hosts
from benchmarks.collectives.launch import ENVIRONMENT, launch_ranks
from benchmarks.scale.prediction import compute_cost
from benchmarks.scale.rates import Rates, read_rates
from benchmarks.scale.systems import SYSTEMS, Options
from wirecodec.cli.cost_model import Network

__all__ = ["CheckedTime", "check_model", "run_rates"]


@dataclass(frozen=True)
class CheckedTime:
    """Prediction beside a measurement.

    Attributes:
        rate: of the links.
        network: of the run, as measured.
        system: its name.
        predicted: seconds of an exchange, per step.
        measured: the same.
        sending: seconds of the prediction that bytes and messages take.
    """

    rate: str
    network: Network
    system: str
    predicted: float
    measured: float
    sending: float

    @property
    def error(self) -> float:
        """Return the relative error of the prediction."""
        return self.predicted / self.measured - 1


def run_rates(model: str, options: Options, budget: float) -> Rates:
    """Measure the rates of a model in a process of its own.

    Args:
        model: its name.
        options: of the systems.
        budget: approximate seconds per call.
    """
    plan = {"model": model, "options": dataclasses.asdict(options), "budget": budget}
    command = [sys.executable, "-m", "benchmarks.scale.rates", json.dumps(plan)]
    done = subprocess.run(
        command, env=os.environ | ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True
    )
    return read_rates(done.stdout.splitlines()[-1])


def check_model(
    model: str,
    rates: Rates,
    options: Options,
    *,
    ranks: tuple[int, ...],
    links: tuple[str, ...],
    budget: float,
    step: Callable[[str], None],
) -> Iterator[CheckedTime]:
    """Run all systems on emulated hosts, and predict each time.

    Args:
        model: name of a model that is measured as a whole.
        rates: of this machine.
        options: of the systems.
        ranks: numbers of hosts.
        links: keys of ``benchmarks.collectives.hosts.RATES``.
        budget: seconds per system; slow ones take up to five times as long.
        step: called with the name of each run before it starts.
    """
    cores = len(os.sched_getaffinity(0))
    plan: dict[str, Any] = {"model": model, "options": dataclasses.asdict(options)}
    plan |= {"systems": SYSTEMS, "budget": budget}
    for n in ranks:
        with Hosts(n) as hosts:
            for link in links:
                step(f"{link}, n = {n}")
                hosts.shape(RATES[link])
                network = None
                for record in launch_ranks(hosts, sys.executable, plan, 3600, "benchmarks.scale.rank"):
                    if record["kind"] == "network":
                        crowd = max(1.0, n / cores)
                        network = Network(n, record["bandwidth"], record["latency"], crowd)
                    else:
                        assert network is not None
                        step(f"{link}, n = {n}: {record['name']}")
                        yield _compare(link, network, rates, record)


def _compare(link: str, network: Network, rates: Rates, record: dict[str, Any]) -> CheckedTime:
    cost = compute_cost(record["name"], rates, network.ranks)
    sending = cost.nbytes / network.bandwidth + cost.messages * network.latency
    return CheckedTime(link, network, record["name"], cost.seconds(network), record["seconds"], sending)
