"""Measured rows on disk, one JSON file per section, written after each measurement.

So a run that is cut off loses nothing, and rows of another machine can be formatted here.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["FOLDER", "Job", "SectionRows", "guard", "load", "make", "measure", "save"]

FOLDER = Path(__file__).parent / ".rows"
T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """One measurement, or a few that share their inputs.

    Attributes:
        name: shown while it runs.
        run: returns the rows, which are dataclasses.
    """

    name: str
    run: Callable[[], Iterable[Any]]


@dataclass
class SectionRows:
    """Rows of one section.

    Attributes:
        machine: that measured them.
        seconds: of the whole section.
        complete: whether no measurement is missing for lack of time.
        rows: fields by name.
        failures: (measurement, reason) of those that raised an error.
    """

    machine: str
    seconds: float = 0.0
    complete: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)


def guard(name: str, jobs: Iterator[Job]) -> Iterator[Job]:
    """Yield jobs; if their preparation fails, yield one that fails, so that others are measured."""
    try:
        yield from jobs
    except Exception as error:
        reason = error

        def fail() -> Iterable[Any]:
            raise reason

        yield Job(name, fail)


def measure(
    path: Path, machine: str, jobs: Iterable[Job], seconds: float, show: Callable[[str], None]
) -> SectionRows:
    """Run jobs until the time is over, and write the rows after each.

    Args:
        path: of the JSON file.
        machine: description of the machine.
        jobs: of the section; no job starts after ``seconds``.
        seconds: bound on the time.
        show: called with the name of each job.
    """
    done, start = SectionRows(machine, complete=True), time.perf_counter()
    for job in jobs:
        if time.perf_counter() - start > seconds:
            done.complete = False
            break
        show(job.name)
        try:
            for row in job.run():
                done.rows.append(asdict(row))
        except Exception as error:
            done.failures.append((job.name, describe_error(error)))
        done.seconds = time.perf_counter() - start
        save(path, done)
    save(path, done)
    return done


def describe_error(error: BaseException) -> str:
    """Describe an error in one line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return " ".join(f"{type(error).__name__}: {error}{place}".split())[:500]


def save(path: Path, section: SectionRows) -> None:
    """Write the rows of a section; an interrupt leaves the previous file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(asdict(section), indent=1))
    partial.replace(path)


def load(path: Path) -> SectionRows | None:
    """Read the rows of a section; None if it was not measured."""
    if not path.exists():
        return None
    return SectionRows(**json.loads(path.read_text()))


def make(kind: Callable[..., T], section: SectionRows) -> list[T]:
    """Make the rows of a section, of a dataclass."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return [kind(**{name: x for name, x in row.items() if name in names}) for row in section.rows]
