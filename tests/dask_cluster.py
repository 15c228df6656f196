"""A Dask cluster on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.fork_server import quick_processes


@contextmanager
def dask_cluster(workers: int) -> Iterator[Any]:
    from distributed import LocalCluster  # takes longer than most tests, which do not need it

    where = "127.0.0.1:0"
    with quick_processes():
        started = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=where, silence_logs=50)  # type: ignore[no-untyped-call]  # it has no types
        with started as cluster:
            yield cluster


@contextmanager
def client_of(cluster: Any) -> Iterator[Any]:
    from distributed import Client

    with Client(cluster) as client:  # type: ignore[no-untyped-call]  # it has no types
        yield client
