"""Starts processes quickly: one process has imported the program and its libraries, and forks for each process.

Importing them takes most of the time of a command. `commands()` has `graph-agent` and `python` for the PATH, which send
their arguments, folder, environment and open files to the fork server, pass on the signals that they receive, and end as the
process has ended. If one is killed, its process is killed, too.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import gc
import json
import multiprocessing.resource_tracker
import multiprocessing.spawn
import os
import runpy
import selectors
import shutil
import signal
import socket
import ssl
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from tests.run_folder import VARIABLE, connect, ready_file, service

CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
files = [0, 1, 2] + [int(name) for name in os.listdir("/dev/fd") if int(name) > 2]
files = [number for number in files if os.path.exists(f"/dev/fd/{{number}}")]
umask = os.umask(0)
os.umask(umask)
request = json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:], os.getcwd(), dict(os.environ), umask, files]).encode()
link = socket.socket(socket.AF_UNIX)
link.connect({address!r})
# From the moment of the request the process may run, and what sees its output may send a signal.
passed_on = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)
for number in passed_on:
    signal.signal(number, lambda received, _: link.send(bytes([received])))
socket.send_fds(link, [len(request).to_bytes(4)], files)
link.sendall(request)
signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
code = int.from_bytes(link.recv(4), signed=True)
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""

LIBRARIES = (
    "alembic.command",
    "graph_agent.api.app",
    "jsonschema",
    "kubernetes_validate",
    "langchain_google_genai",
    "mcp.server",
    "mcp.server.stdio",
    "opentelemetry.exporter.otlp.proto.http",
    "opentelemetry.exporter.prometheus",
    "opentelemetry.sdk",
    "psycopg",
)
"""What the commands import only when they need it. Not those whose import starts threads, which a fork does not have."""


def commands() -> Path:
    """Return the folder with the two commands."""
    return Path(service("tests.fork_server"))


def python() -> str:
    """Return the command that runs Python with everything imported; outside a run of the tests `sys.executable`."""
    return str(commands() / "python") if VARIABLE in os.environ else sys.executable


def graph_agent() -> str:
    """Return the command `graph-agent` with everything imported; outside a run of the tests the installed one."""
    return str(commands() / "graph-agent" if VARIABLE in os.environ else Path(sys.executable).with_name("graph-agent"))


@contextmanager
def quick_processes() -> Iterator[None]:
    """Let process pools and worker groups of this process start forks meanwhile."""
    # It lives as long as this process, which is longer than the fork server.
    multiprocessing.resource_tracker.ensure_running()
    before = multiprocessing.spawn.get_executable()
    multiprocessing.set_executable(python())
    try:
        yield
    finally:
        multiprocessing.set_executable(before)


@dataclass
class ForkServer:
    """`run` returns in the process that serves when the run of the tests ends, and in each fork with what it runs."""

    listener: socket.socket
    lifeline: socket.socket
    clients: dict[int, socket.socket] = field(default_factory=dict)
    """By the process that has been forked for it."""
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    ended: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)
    """Receives a byte when a process has ended."""
    kills: bool = True
    """True if the processes are killed when the run of the tests ends."""

    def run(self) -> Callable[[], object] | None:
        for one in self.ended:
            one.setblocking(False)
        signal.set_wakeup_fd(self.ended[1].fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for source in (self.listener, self.lifeline, self.ended[0]):
            self.selector.register(source, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in self.selector.select()}
            if self.lifeline in ready:
                for process in self.clients if self.kills else ():
                    os.kill(process, signal.SIGKILL)
                return None
            # First those that have ended: their clients close the connection afterwards.
            if self.ended[0] in ready:
                self.reap()
            for process, client in list(self.clients.items()):
                if client in ready:
                    self.signal(process, client)
            if self.listener in ready:
                client, _ = self.listener.accept()
                if (program := self.fork(client)) is not None:
                    return program

    def fork(self, client: socket.socket) -> Callable[[], object] | None:
        """Fork for a client; return what the fork runs, and None in the server."""
        try:
            size, files, _, _ = socket.recv_fds(client, 4, 250)
            name, arguments, folder, environment, umask, numbers = json.loads(_receive(client, int.from_bytes(size)))
        except (ConnectionError, ValueError):  # the client has been killed
            client.close()
            return None
        if process := os.fork():
            self.clients[process] = client
            self.selector.register(client, selectors.EVENT_READ)
            for file in files:
                os.close(file)
            return None
        client.close()
        self.close()
        _replace_files(files, numbers)
        os.chdir(folder)
        os.umask(umask)
        os.environ.clear()
        os.environ.update(environment)
        return program(name, arguments)

    def reap(self) -> None:
        """Report the processes that have ended to their clients."""
        while self.ended[0] in {key.fileobj for key, _ in self.selector.select(0)}:
            self.ended[0].recv(4096)
        while self.clients:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            # The client may have been killed.
            if (client := self.clients.pop(process, None)) is None:
                continue
            with client, suppress(KeyError, ConnectionError):
                self.selector.unregister(client)
                client.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, signed=True))

    def signal(self, process: int, client: socket.socket) -> None:
        """Pass on the signals that a client has received. If it has been killed, kill its process."""
        try:
            numbers = client.recv(100)
        except ConnectionError:
            numbers = b""
        if not numbers:
            self.selector.unregister(client)
        for number in numbers or [signal.SIGKILL]:
            os.kill(process, number)

    def close(self) -> None:
        """Close everything that is the server's own, in a fork."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.selector.close()
        for one in (self.listener, self.lifeline, *self.ended, *self.clients.values()):
            one.close()


def _receive(client: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = client.recv(size - len(received))
        if not part:
            raise ConnectionError
        received += part
    return received


def _replace_files(files: Sequence[int], numbers: Sequence[int]) -> None:
    """Give the received files the numbers that they have in the client."""
    above = max([*files, *numbers]) + 1
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, above) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(moved, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
    # The buffers of the old streams remember a position that the new ones do not have.
    sys.stdin = sys.__stdin__ = open(0)  # type: ignore[misc]  # noqa: SIM115 (a fork has other streams, which stay open)
    sys.stdout = sys.__stdout__ = open(1, "w")  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, errors="backslashreplace")  # type: ignore[misc]  # noqa: SIM115


def program(name: str, arguments: list[str]) -> Callable[[], object]:
    """Return what `graph-agent` or `python` does with the arguments."""
    if name == "graph-agent":
        from graph_agent.cli.main import main

        # The MCP servers in Python that it starts are forks, too.
        sys.executable = os.fsdecode(multiprocessing.spawn.get_executable())
        return lambda: main(arguments)
    main_module = ModuleType("__main__")
    sys.modules["__main__"] = main_module
    sys.path[:1] = [str(Path.cwd()), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    if arguments[:1] == ["-P"]:
        del sys.path[0]
    # The bytecode has been read already, and execnet needs no unbuffered streams.
    match arguments[arguments[:1] in (["-B"], ["-u"], ["-P"]) :]:
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            return lambda: exec(compile(code, "<string>", "exec"), vars(main_module))
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            return lambda: runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [script, *rest] if not script.startswith("-"):
            sys.argv = [script, *rest]
            sys.path[0] = str(Path(script).parent)
            return lambda: runpy.run_path(script, run_name="__main__")
    # Its options are for a process that starts from nothing.
    return lambda: os.execv(sys.executable, [sys.executable, *arguments])


def run(program: Callable[[], object]) -> int:
    """Run the program of a fork as an interpreter does, and return its exit code."""
    try:
        program()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def end(code: int) -> None:
    """End a fork without the destruction of all modules, which takes longer than most commands."""
    # What an interpreter does before it.
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 (it has no public name)
    atexit._run_exitfuncs()  # noqa: SLF001 (it has no public name)
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except OSError:
            code = code or 120
    os._exit(code)


def without_grammar() -> None:
    """Let jsonschema do without the grammar of IRIs, which no test needs: it takes more than a second to compile."""
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # the import system's sign for what is not there


_tls_context = cache(ssl.create_default_context)


def share_tls_contexts() -> None:
    """Let all clients share a TLS context: reading the certificates takes 20 ms, and most tests of the API make clients."""
    ssl.create_default_context = _tls_context  # type: ignore[assignment]  # the same, called once


async def run_one_turn() -> None:
    """Fill the caches: a turn compiles a hundred regular expressions."""
    from graph_agent.api.app import create_app
    from graph_agent.bootstrap.runtime import open_runtime
    from graph_agent.settings import Settings

    with TemporaryDirectory() as home:
        async with open_runtime(Settings(GRAPH_AGENT_HOME=Path(home)), model="embedded") as runtime:
            create_app(runtime)
            await runtime.chat.send("local", "add a task to call mom")


def import_everything() -> None:
    from graph_agent.cli.main import COMMANDS, load_command

    for table in COMMANDS.values():
        for name, command in table.items():
            if command.extra is None:
                load_command(name, command)
    without_grammar()
    share_tls_contexts()
    for library in LIBRARIES:
        import_module(library)
    asyncio.run(run_one_turn())
    assert threading.active_count() == 1
    # The collector of a fork does not touch, and so copy, what all of them share; by default it takes 8 % of their time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def write_programs(folder: Path, name: str, programs: Sequence[str]) -> tuple[socket.socket, Path]:
    """Return the socket at which the programs ask for forks, and the folder with the programs."""
    address = folder / f"{name}.socket"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(address))
    listener.listen(100)
    written = folder / name
    written.mkdir()
    for program in programs:
        (written / program).write_text(CLIENT.format(python=sys.executable, address=str(address)), encoding="utf-8")
        (written / program).chmod(0o755)
    return listener, written


def open_commands(folder: Path) -> socket.socket:
    """Write the commands, and the file that says that they are ready; return the socket at which they ask for forks."""
    listener, programs = write_programs(folder, "bin", ["graph-agent", "python", "python3"])
    ready_file(folder, "tests.fork_server").write_text(str(programs), encoding="utf-8")
    return listener


def serve(folder: Path, listener: socket.socket) -> Callable[[], object] | None:
    """Serve the commands until the run of the tests ends."""
    # The processes that a fork starts are forks, too.
    multiprocessing.set_executable(str(folder / "bin" / "python"))
    return ForkServer(listener, connect(folder)).run()


def run_service(serve: Callable[[Path], Callable[[], object] | None]) -> None:
    """Run a service that forks; its forks return here, too."""
    run_folder = Path(sys.argv[1])
    if (forked := serve(run_folder)) is not None:
        end(run(forked))
    # PostgreSQL is stopped by the process whose id is in its folder; the process that stops it removes everything.
    if not (run_folder / "postgresql").exists():
        shutil.rmtree(run_folder, ignore_errors=True)


def main(folder: Path) -> Callable[[], object] | None:
    import_everything()
    listener = open_commands(folder)
    print(folder / "bin", flush=True)
    return serve(folder, listener)


if __name__ == "__main__":
    run_service(main)
