"""The figures of a model's defences, from their recorded runs, as the benchmark judged them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.agentdyn.recording import Recording, read_recordings

UNDEFENDED = "no defence"


class Published(NamedTuple):
    """The recorded runs of a defence: all tasks without an attack, and with each attack."""

    defence: str
    tasks: list[Recording]
    attacks: list[Recording]


def published(runs: Path, model: str, suites: list[str]) -> Iterator[Published]:
    """Return the defences of a model that have runs, first none."""
    for folder in sorted(runs.glob(f"{model}*")):
        defence = folder.name.removeprefix(model).lstrip("-").replace("_", " ") or UNDEFENDED
        found = [recording for suite in suites for recording in read_recordings(folder / suite)]
        tasks = [recording for recording in found if recording.injection is None]
        attacks = [recording for recording in found if recording.injection is not None]
        if tasks and attacks:
            yield Published(defence, tasks, attacks)
