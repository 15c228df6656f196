"""A program between a client and a server over stdio that loses the answers of one tool: `LOG SEED TOOL COMMAND ...`.

Half of the calls are lost: their answer is dropped, they arrive late, or the connection is cut before or after them. The file
LOG has a line for each call that has reached the server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from tests.lost_answer import LOSSES, Fault

LATE_SECONDS = 2.0


class LossyPipe:
    """The connection to one run of the server."""

    def __init__(self, log: Path, seed: str, tool: str, command: list[str]) -> None:
        self._log, self._tool = log, tool
        # The number of this run, so that a server that is started again does not lose the same calls.
        runs = log.with_suffix(".runs")
        number = len(runs.read_text(encoding="utf-8")) if runs.exists() else 0
        runs.write_text("." * (number + 1), encoding="utf-8")
        self._dice = Random(f"{seed}{number}")
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._faults: dict[Any, Fault] = {}
        """What happens to the answer of a request, by its id."""
        self._sending = threading.Lock()

    def run(self) -> NoReturn:
        """Pass on all messages until one side ends."""
        threading.Thread(target=self._answers, daemon=True).start()
        for line in sys.stdin.buffer:
            message = _parsed(line)
            if message.get("method") != "tools/call" or message["params"]["name"] != self._tool:
                self._send(line)
                continue
            fault = self._dice.choice(LOSSES) if self._dice.random() < 0.5 else Fault.NONE
            self._faults[message["id"]] = fault
            if fault is Fault.CUT_BEFORE:
                self._end()
            elif fault is Fault.DELAYED:
                threading.Timer(LATE_SECONDS, self._call, (line, message)).start()
            else:
                self._call(line, message)
        self._end()

    def _call(self, line: bytes, message: dict[str, Any]) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(message["params"]["arguments"], sort_keys=True) + "\n")
        self._send(line)

    def _send(self, line: bytes) -> None:
        assert self._server.stdin is not None
        with self._sending, suppress(BrokenPipeError, ValueError):
            self._server.stdin.write(line)
            self._server.stdin.flush()

    def _answers(self) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            fault = self._faults.get(_parsed(line).get("id"), Fault.NONE)
            if fault is Fault.NONE:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
            elif fault is Fault.CUT_AFTER:
                self._end()
        self._end()

    def _end(self) -> NoReturn:
        self._server.kill()
        self._server.wait()
        os._exit(1)


def _parsed(line: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        message = json.loads(line)
        return message if isinstance(message, dict) else {}
    return {}


if __name__ == "__main__":
    LossyPipe(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]).run()
