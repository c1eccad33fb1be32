"""StoreComm: a communicator over an object store, whose peers come and go."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Mapping
from typing import Any

from collectives.store.files import Files
from collectives.store.layout import check_name
from collectives.store.log import Place
from collectives.store.participant import Participant
from collectives.store.rounds import Timing
from collectives.store.rules import Rules, agree_on_rules
from collectives.store.signing import make_key, make_ring
from collectives.waiting.backoff import check_seconds


class RunExists(ValueError):
    """Error of a peer that begins a run whose name is taken: it has rounds already."""


class StoreComm(Participant):
    """Communicator over an object store, for peers that cannot reach each other.

    ``allgather``, ``allgather_bytes``, ``allreduce`` and ``LocalUpdates`` take it in place of a communicator.
    Each call is a round: every peer writes one object, and reads those of the others. One object, which the
    store creates only once, names the peers that count. All peers use just these, in its order.

    A peer that comes too late gets the same result as the members, and does not count: the step of its
    Compressor is rolled back. ``LocalUpdates`` keeps its movement for the next round.

    Args:
        url: of a folder, as fsspec has them: "/mnt/shared", "s3://bucket/folder", "gs://…", "sftp://…".
        run: name of the run, a folder in it. Peers of a run have the same rules and models.
        name: of this peer, unlike that of any other peer.
        quorum: fewest members of a round. Fewer of them wait, and then give the round up for all peers.
        deadline: seconds after this peer's own object until it goes on without peers that are missing. It
            must exceed the time between the fastest and the slowest peer.
        poll: seconds between two looks at the store.
        timeout: seconds after this peer's own object until it gives up a round without a quorum, and seconds
            for which it repeats requests while the store fails.
        storage_options: of the file system of fsspec.
        key: this peer's private key, 32 bytes, or None; ``make_key`` makes one. It needs ``keys``.
        keys: {name: public key, 32 bytes} of all peers that may take part, or None for anybody.
        max_norm: largest L2 norm of a peer's tensors in a round, or None.
        max_weight: largest weight of a peer.
        max_bytes: largest container, and largest state, in bytes.
        max_peers: most members of a round.
        publish_every: rounds between two states that ``LocalUpdates`` publishes for peers that join.
        keep: rounds whose objects are kept; at least twice ``publish_every``. Members delete older ones.
        resume: whether this peer continues a run that has rounds already, as a peer does that joins or is
            started again. True to continue without a word, False to raise an error; by default it continues
            with a warning. A new training needs another run, or a folder that is empty.

    Attributes:
        name: of this peer.
        round: number of the next round, or None before the first one.
        last: a report of the last round, or None.
        traffic: bytes and requests of this peer so far.

    ``quorum``, ``keys`` and the four limits are rules: the first peer writes them into the store, and
    they are the same on all peers.

    Raises:
        ValueError: an argument is out of range, the rules are not those of the run, the store cannot create
            an object exclusively, or the run has rounds and ``resume`` is False.
        ImportError: fsspec, the package of the protocol, or for keys ``cryptography`` is missing.
        CollectiveError: the store fails for longer than ``timeout``; or the first request to an object store
            fails, as with a wrong endpoint, bucket or key, and is not repeated.

    Source:
        formats/spec/rounds.md.

    Examples:
        >>> import collectives as co, tempfile, numpy as np
        >>> folder = tempfile.mkdtemp()
        >>> comm = co.StoreComm(folder, "demo", "alice", quorum=1, deadline=0.01, poll=0.01)
        >>> co.allreduce(comm, np.array([1, 0, 2], np.float32), "topk(k=1) | rice | raw")
        array([0., 0., 2.], dtype=float32)
        >>> comm.last.members
        ('alice',)
    """

    def __init__(
        self,
        url: str,
        run: str,
        name: str,
        *,
        quorum: int,
        deadline: float = 60.0,
        poll: float = 1.0,
        timeout: float = 600.0,
        storage_options: Mapping[str, Any] | None = None,
        key: bytes | None = None,
        keys: Mapping[str, bytes] | None = None,
        max_norm: float | None = None,
        max_weight: float = 1.0,
        max_bytes: int = 2**30,
        max_peers: int = 256,
        publish_every: int = 64,
        keep: int = 256,
        resume: bool | None = None,
    ) -> None:
        check_name(run, "run")
        check_name(name)
        check_seconds(deadline=deadline, poll=poll, timeout=timeout)
        if not 1 <= publish_every <= keep // 2:
            raise ValueError(
                f"publish_every is {publish_every!r} and keep is {keep!r}; a peer that joins needs the rounds"
                " since the last state, so keep must be at least twice publish_every"
            )
        ring = make_ring(name, key, keys)
        rules = Rules(quorum, max_bytes, max_norm, max_weight, max_peers, ring.digest)
        files = Files(str(url), run, storage_options, timeout)
        files.check_exclusive(f"probe.{secrets.token_hex(16)}")
        place = Place(
            files, rules, agree_on_rules(files, rules, run, name, ring.sign), 0, ring.verify, ring.names
        )
        super().__init__(name, place, ring, Timing(deadline, poll, timeout), publish_every, keep)
        if resume is not True:
            self._announce_old_run(run, may_continue=resume is None)

    def _announce_old_run(self, run: str, *, may_continue: bool) -> None:
        """Warn if the run has rounds; raise RunExists if this peer must not continue it."""
        newest = self.find_newest()
        if newest is None:
            return
        text = f"run {run!r} in {self._place.files.root} is at round {newest + 1} already"
        if not may_continue:
            raise RunExists(
                f"{text}, and resume is False; give a new training another run, or delete the folder"
            )
        warnings.warn(
            f"{text}: peer {self.name!r} continues it. Pass resume=True if this is meant, and give a new"
            " training another run",
            stacklevel=3,
        )

    @staticmethod
    def make_key() -> tuple[bytes, bytes]:
        """Make a private and a public key for a peer, 32 bytes each.

        Raises:
            ImportError: ``cryptography`` is missing.
        """
        return make_key()

    def __repr__(self) -> str:
        """Return the name, the folder and the next round."""
        return f"<StoreComm of {self.name!r} in {self._place.files.root}, next round {self.round}>"
