"""How ranks are started on the hosts: one on each, over TCP alone, by the MPI that a Python has."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.collectives.hosts import Hosts

__all__ = ["measured", "mpi_of"]

_ROOT = Path(__file__).parents[2]
# Memory that a rank frees stays with it. A virtual machine may hand it back to its host within seconds; to
# get 100 MB of it anew then takes 0.2 s, which is no property of what is measured.
_KEEPS_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "NUMBA")}


def mpi_of(python: str) -> str:
    """Which MPI an environment has beside its Python: "Open MPI", "MPICH", or an empty string."""
    folder = Path(python).parent
    if (folder / "mpiexec.hydra").exists():
        return "MPICH"
    return "Open MPI" if (folder / "mpirun").exists() else ""


def measured(hosts: Hosts, python: str, plan: Mapping[str, Any], timeout: float) -> Iterator[dict[str, Any]]:
    """What rank 0 says, as it says it.

    Args:
        hosts: a rank runs on each.
        python: of the environment that has the MPI.
        plan: as ``benchmarks.collectives.rank`` takes it.
        timeout: seconds for all of it.
    """
    launcher = _mpich(hosts, python) if mpi_of(python) == "MPICH" else _open_mpi(hosts, python)
    command = [*launcher, python, "-m", "benchmarks.collectives.rank", json.dumps(dict(plan))]
    environment = os.environ | _ONE_THREAD | _KEEPS_MEMORY | {"PYTHONPATH": str(_ROOT)}
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for line in hosts.lines(command, environment, timeout):
        if line.startswith("{"):
            yield json.loads(line)


def _open_mpi(hosts: Hosts, python: str) -> list[str]:
    return [
        str(Path(python).parent / "mpirun"),
        *("--prtemca", "plm_ssh_agent", str(hosts.agent()), "--prtemca", "plm_ssh_no_tree_spawn", "1"),
        *("--host", ",".join(f"{name}:1" for name in hosts.names), "-n", str(hosts.count)),
        *("--map-by", "ppr:1:node:OVERSUBSCRIBE", "--bind-to", "none"),
        *("--mca", "pml", "ob1", "--mca", "btl", "tcp,self"),
        *("--mca", "btl_tcp_if_include", hosts.network, "--mca", "mpi_yield_when_idle", "1"),
    ]


def _mpich(hosts: Hosts, python: str) -> list[str]:
    return [
        str(Path(python).parent / "mpiexec.hydra"),
        *("-launcher", "ssh", "-launcher-exec", str(hosts.agent()), "-iface", "eth0"),
        *("-hosts", ",".join(f"{name}:1" for name in hosts.names), "-n", str(hosts.count), "-ppn", "1"),
        *("-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "eth0"),
        *("-genv", "MPIR_CVAR_NOLOCAL", "1"),
    ]
