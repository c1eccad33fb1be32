"""Several hosts on one machine: network namespaces on one bridge, every link shaped to a rate, both ways.

    host 0    host 1    …    host n-1        each a namespace with its own name and address
      │ tbf     │ tbf          │ tbf
      └─────────┴── bridge ────┘             in a namespace of its own, with the launcher's

Nothing is changed in the namespace that the caller runs in. Every name begins with one prefix, which holds
the process id, so that two runs never meet, and all of it goes away with the ``with`` block.
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

__all__ = ["RATES", "Hosts", "Shape", "missing"]

_NET = "10.77.0"
_LAUNCHER = 254  # last number of the launcher's address
_ETC = Path("/etc/netns")  # `ip netns exec` lays what is here over /etc
_AGENT = """\
#!/bin/sh
# As ssh is called: options, host, command.
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
    """How a link is held to a rate.

    Attributes:
        rate: as ``tc`` writes it.
        bits: a second.
        burst: bytes that may leave at once.
        packet: largest the kernel may hand over at once: one above the burst would be cut up and counted
            against a queue that drops.
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


def missing() -> str:
    """Why there can be no hosts on this machine, or an empty string."""
    absent = [tool for tool in ("ip", "tc", "unshare") if shutil.which(tool) is None]
    if absent:
        return f"{', '.join(absent)} not found"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"wct{os.getpid()}"
    made = _try("ip", "netns", "add", name)
    if made:
        return f"no network namespaces: {made}"
    try:
        shaped = _try(
            "ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "eth1"
        ) or _try("tc", "-n", name, "qdisc", "add", "dev", "eth0", *_tbf(RATES["1 Gbit"]))
        return f"no shaped links: {shaped}" if shaped else ""
    finally:
        _try("ip", "netns", "del", name)


class Hosts:
    """``count`` hosts, for as long as the ``with`` block lasts.

    Args:
        count: hosts.
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
        """The hosts' names, which are also those of their namespaces."""
        return [f"{self._prefix}h{number}" for number in range(self.count)]

    @property
    def network(self) -> str:
        """Of all their addresses."""
        return f"{_NET}.0/24"

    def __enter__(self) -> Hosts:
        try:
            self._up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def shape(self, shape: Shape) -> None:
        """Hold every host's link to a rate, both ways."""
        for name in self.names:
            for space, device in ((name, "eth0"), (self._switch, name)):
                _try("tc", "-n", space, "qdisc", "del", "dev", device, "root")
                _run("ip", "-n", space, "link", "set", device, "gso_max_size", str(shape.packet))
                _run("tc", "-n", space, "qdisc", "add", "dev", device, *_tbf(shape))

    def agent(self) -> Path:
        """A program to be called as ssh is, which runs a command on a host."""
        path = self._folder / "agent"
        path.write_text(_AGENT)
        path.chmod(0o755)
        return path

    def lines(self, command: Sequence[str], environment: Mapping[str, str], timeout: float) -> Iterator[str]:
        """Run a command where it sees all hosts, and yield what it prints, line by line.

        Args:
            command: the launcher of ranks.
            environment: all of its variables.
            timeout: seconds it may take in all.

        RuntimeError, with the end of what it wrote to stderr, where it fails or takes longer.
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
            with _alarm(self._running, timeout):
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
        """End what still runs on the hosts and remove them."""
        self._stop()
        for name in (*self.names, self._launcher, self._switch):
            for pid in _out("ip", "netns", "pids", name).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            _try("ip", "netns", "del", name)
            shutil.rmtree(_ETC / name, ignore_errors=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _up(self) -> None:
        _run("ip", "netns", "add", self._switch)
        _run("ip", "-n", self._switch, "link", "set", "lo", "up")
        _run("ip", "-n", self._switch, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
        _run("ip", "-n", self._switch, "link", "set", "br0", "up")
        numbered = [*zip(self.names, range(1, self.count + 1), strict=True), (self._launcher, _LAUNCHER)]
        table = ["127.0.0.1 localhost", *(f"{_NET}.{number} {name}" for name, number in numbered)]
        for name, number in numbered:
            self._add(name, number)
            (_ETC / name).mkdir(parents=True)
            (_ETC / name / "hosts").write_text("\n".join(table) + "\n")

    def _add(self, name: str, number: int) -> None:
        """One host, joined to the bridge."""
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
def _alarm(running: subprocess.Popen[str], timeout: float) -> Iterator[None]:
    """End a process that takes too long, while its output is being read."""
    timer = threading.Timer(timeout, running.terminate)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tbf(shape: Shape) -> list[str]:
    return ["root", "tbf", "rate", shape.rate, "burst", str(shape.burst), "limit", str(32 << 20)]


def _run(*command: str) -> None:
    """Do it; RuntimeError, with what it said, where it fails."""
    failed = _try(*command)
    if failed:
        raise RuntimeError(f"{' '.join(command)}: {failed}")


def _try(*command: str) -> str:
    """Do it; what it said where it failed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"


def _out(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
