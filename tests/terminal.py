"""A terminal in which a command runs and a person types.

python -m tests.terminal yes -- graph-agent ask -c
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from graph_agent.cli.typed_answer import PROMPT

PROGRAM = str(Path(sys.executable).parent / "graph-agent")
"""The program itself: a process of the fork server has no terminal of its own."""


def typed(
    command: Sequence[str], answers: Sequence[str], *, early: str = "", environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a command in a new terminal, type a line at each prompt, and return the exit code and what the terminal shows.

    `early` is typed before the command prints anything.
    """
    terminal, side = pty.openpty()
    os.write(terminal, early.encode())
    waiting, shown = list(answers), b""
    with subprocess.Popen(
        command, env=environment, stdin=side, stdout=side, stderr=side, preexec_fn=lambda: os.login_tty(side)
    ) as process:
        os.close(side)
        # Linux reports the end of the other side as an error.
        with suppress(OSError):
            while chunk := os.read(terminal, 4096):
                shown += chunk
                if waiting and shown.endswith(PROMPT.encode()):
                    os.write(terminal, f"{waiting.pop(0)}\n".encode())
                elif shown.endswith(PROMPT.encode()):
                    # The key that ends the input.
                    os.write(terminal, b"\x04")
    os.close(terminal)
    return process.returncode, shown.decode().replace("\r\n", "\n")


if __name__ == "__main__":
    end = sys.argv.index("--")
    program, *arguments = sys.argv[end + 1 :]
    code, printed = typed([PROGRAM if program == "graph-agent" else program, *arguments], sys.argv[1:end])
    print(printed, end="")
    sys.exit(code)
