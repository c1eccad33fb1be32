"""Emulated hosts on one machine: network namespaces on one bridge, with every link shaped in both directions.

    host 0    host 1    …    host n-1        one namespace each, with its own name and address
      │ tbf     │ tbf          │ tbf
      └─────────┴── bridge ────┘             in its own namespace, with the launcher

The caller's namespace is not changed. Every name has a prefix with the process id, so that concurrent runs do
not collide. The ``with`` block removes everything at its end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

__all__ = ["RATES", "Hosts", "Shape", "find_missing_tools"]

_NET = "10.77.0"
_LAUNCHER = 254  # last byte of the launcher's address
_ETC = Path("/etc/netns")  # `ip netns exec` mounts these files over /etc
_AGENT = """\
#!/bin/sh
# Arguments as for ssh: options, host, command.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0"; exec sh -c "$1"' "$host" "$*"
"""
_SETTINGS = (
    "net.ipv4.tcp_congestion_control=reno",
    "net.ipv4.tcp_slow_start_after_idle=0",
    "net.ipv6.conf.all.disable_ipv6=1",
)


@dataclass(frozen=True)
class Shape:
    """Rate limit of a link.

    Attributes:
        rate: the rate in the syntax of ``tc``.
        bits: bits per second.
        burst: bytes that may be sent at once.
        packet: largest packet of the kernel; packets above the burst are split and can be dropped by the
            queue.
    """

    rate: str
    bits: float
    burst: int
    packet: int


RATES = {
    "100 Mbit": Shape("100mbit", 1e8, 10 << 10, 8000),
    "1 Gbit": Shape("1gbit", 1e9, 32 << 10, 16000),
    "10 Gbit": Shape("10gbit", 1e10, 256 << 10, 65536),
}


def find_missing_tools() -> str:
    """Return the reason why hosts cannot be emulated on this machine, or an empty string."""
    absent = [tool for tool in ("ip", "tc", "unshare") if shutil.which(tool) is None]
    if absent:
        return f"{', '.join(absent)} not found"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"wct{os.getpid()}"
    failure = _try("ip", "netns", "add", name)
    if failure:
        return f"no network namespaces: {failure}"
    try:
        failure = _try(
            "ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "eth1"
        ) or _try("tc", "-n", name, "qdisc", "add", "dev", "eth0", *_build_tbf_arguments(RATES["1 Gbit"]))
        return f"no shaped links: {failure}" if failure else ""
    finally:
        _try("ip", "netns", "del", name)


class Hosts:
    """Emulated hosts for the duration of a ``with`` block.

    Args:
        count: number of hosts.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._prefix = f"wc{os.getpid()}"
        self._folder = Path(tempfile.mkdtemp(prefix="wc-hosts-"))
        self._switch = f"{self._prefix}s"
        self._launcher = f"{self._prefix}l"
        self._running: subprocess.Popen[str] | None = None

    @property
    def names(self) -> list[str]:
        """Return the names of the hosts, which are also those of their namespaces."""
        return [f"{self._prefix}h{number}" for number in range(self.count)]

    @property
    def launcher(self) -> str:
        """Return the name of the launcher's host and namespace; its link is not limited."""
        return self._launcher

    @property
    def network(self) -> str:
        """Return the network of all addresses."""
        return f"{_NET}.0/24"

    def __enter__(self) -> Hosts:
        try:
            self._create()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def shape(self, shape: Shape) -> None:
        """Limit every host's link to a rate in both directions."""
        for name in self.names:
            for space, device in ((name, "eth0"), (self._switch, name)):
                _try("tc", "-n", space, "qdisc", "del", "dev", device, "root")
                _run("ip", "-n", space, "link", "set", device, "gso_max_size", str(shape.packet))
                _run("tc", "-n", space, "qdisc", "add", "dev", device, *_build_tbf_arguments(shape))

    def write_agent(self) -> Path:
        """Write a program with the interface of ssh that runs a command on a host."""
        path = self._folder / "agent"
        path.write_text(_AGENT)
        path.chmod(0o755)
        return path

    def run(self, command: Sequence[str], environment: Mapping[str, str], timeout: float) -> Iterator[str]:
        """Run a command in the launcher's namespace and yield its output line by line.

        Args:
            command: the launcher of ranks.
            environment: all environment variables.
            timeout: seconds for the whole run.

        Raises:
            RuntimeError: with the end of stderr, if the command fails or exceeds the timeout.
        """
        inside = ["ip", "netns", "exec", self._launcher, "unshare", "--uts", "sh", "-c"]
        inside += ['hostname "$0"; exec "$@"', self._launcher, *command]
        errors = self._folder / "stderr"
        end = time.monotonic() + timeout
        with open(errors, "w", encoding="utf-8") as stderr:
            self._running = subprocess.Popen(
                inside,
                stdout=subprocess.PIPE,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
                text=True,
                env=dict(environment),
                start_new_session=True,
            )
        try:
            with _terminate_after(self._running, timeout):
                assert self._running.stdout is not None
                yield from (line.rstrip("\n") for line in self._running.stdout)
                status = self._running.wait()
        finally:
            self._stop()
        if status:
            late = " (timed out)" if time.monotonic() >= end else ""
            text = errors.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"{command[0]} ended with status {status}{late}\n{text}")

    def close(self) -> None:
        """Terminate all processes on the hosts and remove the namespaces."""
        self._stop()
        for name in (*self.names, self._launcher, self._switch):
            for pid in _read_output("ip", "netns", "pids", name).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            _try("ip", "netns", "del", name)
            shutil.rmtree(_ETC / name, ignore_errors=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _create(self) -> None:
        _run("ip", "netns", "add", self._switch)
        _run("ip", "-n", self._switch, "link", "set", "lo", "up")
        _run("ip", "-n", self._switch, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
        _run("ip", "-n", self._switch, "link", "set", "br0", "up")
        numbered = [*zip(self.names, range(1, self.count + 1), strict=True), (self._launcher, _LAUNCHER)]
        table = ["127.0.0.1 localhost", *(f"{_NET}.{number} {name}" for name, number in numbered)]
        for name, number in numbered:
            self._add_host(name, number)
            (_ETC / name).mkdir(parents=True)
            (_ETC / name / "hosts").write_text("\n".join(table) + "\n")

    def _add_host(self, name: str, number: int) -> None:
        """Add one host and connect it to the bridge."""
        _run("ip", "netns", "add", name)
        _run("ip", "-n", name, "link", "set", "lo", "up")
        ends = ["link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", name]
        _run("ip", *ends, "netns", self._switch)
        _run("ip", "-n", self._switch, "link", "set", name, "master", "br0", "up")
        _run("ip", "-n", name, "addr", "add", f"{_NET}.{number}/24", "dev", "eth0")
        _run("ip", "-n", name, "link", "set", "eth0", "txqueuelen", "10000", "up")
        _try("ip", "netns", "exec", name, "sysctl", "-qw", *_SETTINGS)

    def _stop(self) -> None:
        running, self._running = self._running, None
        if running is None or running.poll() is not None:
            return
        running.send_signal(signal.SIGTERM)
        try:
            running.wait(5)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


@contextlib.contextmanager
def _terminate_after(running: subprocess.Popen[str], timeout: float) -> Iterator[None]:
    """Terminate a process after a timeout while its output is read."""
    timer = threading.Timer(timeout, running.terminate)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _build_tbf_arguments(shape: Shape) -> list[str]:
    return ["root", "tbf", "rate", shape.rate, "burst", str(shape.burst), "limit", str(32 << 20)]


def _run(*command: str) -> None:
    """Run a command; RuntimeError with its stderr if it fails."""
    failed = _try(*command)
    if failed:
        raise RuntimeError(f"{' '.join(command)}: {failed}")


def _try(*command: str) -> str:
    """Run a command; return its stderr if it fails, or an empty string."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"


def _read_output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
