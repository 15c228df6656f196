"""A shell in which the commands of a page run one after the other, as a reader types them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.documentation.site import ROOT

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DURATION = re.compile(r', "duration_ms": \d+')
TYPED = re.compile(r"^> (.*)$", re.MULTILINE)
"""What the reader types below the prompt of a command."""
NAMED = re.compile(r"^(?:model|conversation): .*\n", re.MULTILINE)
SLOW_START = re.compile(r"^starting .+ …, \d+ s\r?\n", re.MULTILINE)
"""What a command says of its tool server after three seconds, as on a busy machine."""
TERMINAL = f"env PYTHONPATH={ROOT} {sys.executable} -m tests.terminal"
END = "--- end of the command:"


class Shell:
    """One bash process, started by `runner`. It keeps its folder, variables and background jobs between commands."""

    def __init__(self, folder: Path, environment: dict[str, str], runner: Sequence[str] = ()) -> None:
        self._process = subprocess.Popen(
            [*runner, "bash", "--norc"],
            cwd=folder,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._ids: dict[str, str] = {}

    def run(self, command: str) -> tuple[int, str]:
        """Return the exit code of a command, and what it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for shown, real in self._ids.items():
            command = command.replace(shown, real)
        # The commands do not read the script of the shell itself.
        self._process.stdin.write(f'{{\n{command}\n}} < /dev/null\necho "{END}$?"\n')
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            before, marker, code = line.rpartition(END)
            if marker:
                return int(code), "".join([*lines, before])
            lines.append(line)
        raise AssertionError(f"the shell has ended: {''.join(lines)}")

    def session(self, block: str) -> Iterator[str]:
        """Run a session; yield a description of each command that does not print what the page says.

        Ids differ in every run: those of the page stand for those that the commands print. Durations are not compared. A last
        line of three dots stands for the rest of the output.
        """
        for command, expected in commands(block):
            answers = TYPED.findall(expected)
            code, printed = self.run(f"{TERMINAL} {shlex.join(answers)} -- {command}" if answers else command)
            printed = SLOW_START.sub("", printed)
            if answers:
                # Its terminal is a new one, in which the model and the conversation are named once more.
                printed = NAMED.sub("", printed)
            self._ids.update(zip(UUID.findall(expected), UUID.findall(printed), strict=False))
            for shown, real in self._ids.items():
                expected = expected.replace(shown, real)
            start, dots, _ = expected.partition("\n...\n")
            matches = printed.startswith(start) if dots else plain(printed) == plain(expected)
            if code != 0 or not matches:
                yield f"$ {command}\nexit code {code}, printed:\n{printed}instead of:\n{expected}"

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.poll() is None:
            self._process.stdin.write("kill $(jobs -p) 2> /dev/null; wait\n")
            self._process.stdin.close()
            self._process.wait()
        self._process.stdout.close()


def plain(output: str) -> str:
    return DURATION.sub("", UUID.sub("ID", output))


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Return each `$` line of a session with the output below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output
