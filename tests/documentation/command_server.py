"""Starts `graph-agent` commands quickly: one process has imported the program, and forks for each command.

Importing the program takes most of the time of a command, and the documentation has many. `install` writes a `graph-agent` for
the PATH that sends its arguments, folder, environment and streams to the server, and exits with the command's exit code.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graph_agent.cli.main import COMMANDS, load_command, main

CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect({address!r})
socket.send_fds(link, [b"x"], [0, 1, 2])
link.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode())
link.shutdown(socket.SHUT_WR)
reply = link.makefile()
process = int(reply.readline())
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda received, _: os.kill(process, received))
sys.exit(int(reply.readline()))
"""


@contextmanager
def installed(folder: Path, python: Path) -> Iterator[None]:
    """Write the command into `folder` and serve it meanwhile."""
    address = folder / "commands.socket"
    command = folder / "graph-agent"
    command.write_text(CLIENT.format(python=python, address=str(address)), encoding="utf-8")
    command.chmod(0o755)
    started = [python, "-m", "tests.documentation.command_server", address]
    with subprocess.Popen(started, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            assert server.stdout.readline() == b"ready\n"
            yield
        finally:
            server.terminate()


def serve(address: str) -> None:
    """Run the commands that are received at `address`, each in a process of its own, until this process is ended."""
    for commands in COMMANDS.values():
        for name, command in commands.items():
            # An extra's library may start threads when it is imported, which a fork does not have.
            if command.extra is None:
                load_command(name, command)
    # The collector of a child does not touch, and so copy, what all of them share.
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    # The processes that wait for the commands are not waited for themselves.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        link, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            run(link)
            return
        link.close()


def run(link: socket.socket) -> None:
    """Run one command in a child process, and report its process id and its exit code."""
    _, streams, _, _ = socket.recv_fds(link, 1, 3)
    arguments, folder, environment = json.loads(link.makefile().read())
    process = os.fork()
    if process == 0:
        link.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        # The buffers of the old streams remember a position that the new ones do not have.
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115 (they stay open)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        main(arguments)
    for stream in streams:
        os.close(stream)
    link.sendall(f"{process}\n".encode())
    _, status = os.waitpid(process, 0)
    link.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    serve(sys.argv[1])
