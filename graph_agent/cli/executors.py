"""Long work of a command: the options that divide it, the processes that do it (or a Dask cluster), and its progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from graph_agent.bootstrap.extras import import_extra
from graph_agent.cli.options import option, replace_parameter
from graph_agent.errors import ConfigurationError
from graph_agent.replays.parallel import Checkpoint, J, P, Results, Work, run_in_order, start_worker

DASK_SECONDS = 10
"""The time limit for connecting to a Dask scheduler."""


@dataclass(frozen=True, slots=True)
class Division:
    """The division of a command's work, by its options."""

    workers: Annotated[int, typer.Option("--workers", min=1, max=256, help="Divide the work among this many processes.")] = 1
    dask: Annotated[str | None, option("--dask", "ADDRESS", "Divide the work among the workers of this Dask scheduler.")] = None
    checkpoint: Annotated[
        Path | None, option("--checkpoint", "DIR", "Store the finished parts here, and continue from those found.")
    ] = None

    def __bool__(self) -> bool:
        """True if the work is to be divided."""
        return self.workers > 1 or self.dask is not None or self.checkpoint is not None

    @contextmanager
    def run(self, work: Work[J, P], job: J, parts: Sequence[P], identity: Any) -> Iterator[Iterator[Results]]:
        """Yield an iterator over the results of each part, in order. Leaving the block early cancels the parts that wait.

        `identity` is JSON that identifies the job in a checkpoint.
        """
        stored = None if self.checkpoint is None else Checkpoint(self.checkpoint, identity)
        with (
            self._open_executor() as (executor, ahead),
            closing(run_in_order(executor, work, job, parts, ahead=ahead, checkpoint=stored)) as finished,
        ):
            yield finished

    @contextmanager
    def _open_executor(self) -> Iterator[tuple[Executor, int]]:
        """Yield the executor and the number of parts to submit ahead."""
        if self.dask is None:
            # Spawned: the open log has threads, which a forked process would not have.
            with ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"), initializer=start_worker) as executor:
                try:
                    yield executor, 2 * self.workers
                except BrokenExecutor as exc:
                    raise ConfigurationError(
                        "a worker process was killed: run the command again; with --checkpoint DIR it continues with the rest"
                    ) from exc
                except BaseException:
                    executor.shutdown(wait=False, cancel_futures=True)
                    raise
            return
        distributed = import_extra("distributed", "dask")
        try:
            client = distributed.Client(self.dask, timeout=DASK_SECONDS)
        except (OSError, ValueError) as exc:
            raise ConfigurationError(f"there is no Dask scheduler at {self.dask}") from exc
        with client:
            yield client.get_executor(), 2 * max(1, sum(client.nthreads().values()))


divided = replace_parameter("division", Division)
"""The decorator of a command with a parameter `division`: on the command line, the options that are the fields of it."""


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a progress bar and yield a function that updates it: `update(done, total)`. Nothing is shown without a terminal."""
    console = Console(stderr=True)
    columns = TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
