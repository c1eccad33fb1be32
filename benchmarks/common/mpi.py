"""Launch of ranks on the emulated hosts: one per host, TCP only, with the MPI of a Python environment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common.hosts import Hosts
from benchmarks.common.ranks import RANK_ENVIRONMENT

__all__ = ["ENVIRONMENT", "find_mpi", "launch_ranks"]

# Ranks keep the memory that they free. A virtual machine may return free memory to its host within seconds.
# To allocate 100 MB again then takes 0.2 s, which is not a property of the collectives.
_KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
ENVIRONMENT = RANK_ENVIRONMENT | _KEEP_MEMORY
"""Variables of each rank."""


def find_mpi(python: str) -> str:
    """Return the MPI of a Python environment: "Open MPI", "MPICH", or an empty string."""
    folder = Path(python).parent
    if (folder / "mpiexec.hydra").exists():
        return "MPICH"
    return "Open MPI" if (folder / "mpirun").exists() else ""


def launch_ranks(
    hosts: Hosts,
    python: str,
    plan: Mapping[str, Any],
    timeout: float,
    module: str = "benchmarks.collectives.rank",
) -> Iterator[dict[str, Any]]:
    """Launch the ranks and yield the records of rank 0 as they arrive.

    Args:
        hosts: one rank runs on each.
        python: interpreter of the environment that has the MPI.
        plan: the program's argument, for JSON.
        timeout: seconds for the whole run.
        module: program of a rank.
    """
    launcher = (
        _build_mpich_command(hosts, python)
        if find_mpi(python) == "MPICH"
        else _build_open_mpi_command(hosts, python)
    )
    command = [*launcher, python, "-m", module, json.dumps(dict(plan))]
    environment = os.environ | ENVIRONMENT
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for line in hosts.run(command, environment, timeout):
        if line.startswith("{"):
            yield json.loads(line)


def _build_open_mpi_command(hosts: Hosts, python: str) -> list[str]:
    return [
        str(Path(python).parent / "mpirun"),
        *("--prtemca", "plm_ssh_agent", str(hosts.write_agent()), "--prtemca", "plm_ssh_no_tree_spawn", "1"),
        *("--host", ",".join(f"{name}:1" for name in hosts.names), "-n", str(hosts.count)),
        *("--map-by", "ppr:1:node:OVERSUBSCRIBE", "--bind-to", "none"),
        *("--mca", "pml", "ob1", "--mca", "btl", "tcp,self"),
        *("--mca", "btl_tcp_if_include", hosts.network, "--mca", "mpi_yield_when_idle", "1"),
    ]


def _build_mpich_command(hosts: Hosts, python: str) -> list[str]:
    return [
        str(Path(python).parent / "mpiexec.hydra"),
        *("-launcher", "ssh", "-launcher-exec", str(hosts.write_agent()), "-iface", "eth0"),
        *("-hosts", ",".join(f"{name}:1" for name in hosts.names), "-n", str(hosts.count), "-ppn", "1"),
        *("-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "eth0"),
        *("-genv", "MPIR_CVAR_NOLOCAL", "1"),
    ]
