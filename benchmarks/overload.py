"""`python -m benchmarks.overload [TURNS ...]`: more turns at once than a server can run.

First the server has the embedded model: bursts that it can answer before the deadline, the larger ones followed by one of 50,
and clients that ask again and again. Then its model never answers. The figures say how many turns were answered, how long the
answers took, how many rows were open afterwards, and how the server ended.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.http import cpu_of, serving
from graph_agent.api.connections import raise_descriptor_limit
from tests.cluster.services import PostgreSql
from tests.overload import DEADLINE_SECONDS, TURN_REQUEST, Answer, measure, open_rows, send_burst

TURNS = (500, 1000, 1500)
BURSTS = (20 * [50], 3 * [200], [500, 50], [1000, 50])
"""The numbers of turns of bursts one after the other."""
WORKERS = (1, 2)
"""The processes that share a PostgreSQL and the bursts of 200."""
CLIENTS = (200, 600)
CLIENT_SECONDS = 12.0


def main(sizes: list[int]) -> None:
    """Print the figures of each load, and of one burst of each size at a model that never answers."""
    raise_descriptor_limit()
    for turns in BURSTS:
        _print_load(f"bursts of {', '.join(map(str, turns))}", partial(_bursts, turns))
    with tempfile.TemporaryDirectory(prefix="overload-") as folder:
        Path(folder).chmod(0o755)
        server = PostgreSql(Path(folder))
        for workers in WORKERS:
            load = partial(_bursts, 3 * [200])
            _print_load(f"bursts of 200, 200, 200 on PostgreSQL, processes: {workers}", load, workers, server.url)
        server.close()
    for clients in CLIENTS:
        _print_load(f"{clients} clients for {CLIENT_SECONDS:g} s", partial(_ask_repeatedly, clients))
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            result = measure(Path(folder), size)
        accepted = result.took(200)
        print(f"{size} turns at once, deadline {DEADLINE_SECONDS:g} s: {result.statuses()}")
        if accepted:
            late = sum(seconds > DEADLINE_SECONDS for seconds in accepted)
            print(f"  accepted: last answer after {accepted[-1]:.2f} s, {late} after the deadline")
        _print_refusals(result.took(503))
        print(f"  every row closed after {result.all_closed_at:.2f} s")
        print(f"  after SIGTERM: {result.left_open} rows open, exit code {result.exit_code}")
        print(f"  /healthz in the middle: {result.quick_answer_seconds * 1000:.0f} ms")


def _print_load(name: str, load: Callable[[int], list[Answer]], workers: int = 1, url: str | None = None) -> None:
    processes = ("--workers", str(workers))
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), *processes, url=url) as (server, port):
        _bursts([3, 3], port)  # The first turns import modules and open the databases.
        before = cpu_of(server)
        answers = load(port)
        spent = cpu_of(server) - before
        memory = _peak_memory(server)
        answered = sorted(answer.took for answer in answers if answer.status == 200)
        refused = sorted(answer.took for answer in answers if answer.status == 503)
        print(f"{name}: {len(answered)} answered, {len(refused)} refused, {len(answers) - len(answered) - len(refused)} lost")
        if answered:
            print(f"  answered: median {_ms(answered, 0.5)}, 99 % within {_ms(answered, 0.99)}")
        _print_refusals(refused)
        left = "" if url else f"; {open_rows(Path(folder))} rows open"
        print(f"  CPU of the server: {spent:.1f} s; peak of its memory: {memory} MiB{left}")


def _peak_memory(process: int) -> int:
    """Return the largest resident memory of a process so far, in MiB (Linux)."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def _print_refusals(refused: list[float]) -> None:
    if refused:
        print(f"  refused: first after {_ms(refused, 0)}, median {_ms(refused, 0.5)}, last {_ms(refused, 1)}")


def _ms(sorted_seconds: list[float], share: float) -> str:
    return f"{sorted_seconds[min(len(sorted_seconds) - 1, int(len(sorted_seconds) * share))] * 1000:.0f} ms"


def _bursts(turns: list[int], port: int) -> list[Answer]:
    return [answer for count in turns for answer in send_burst(port, TURN_REQUEST, count, 60)]


def _ask_repeatedly(clients: int, port: int) -> list[Answer]:
    return send_burst(port, TURN_REQUEST, clients, 5 * CLIENT_SECONDS, repeat_seconds=CLIENT_SECONDS)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or list(TURNS))
