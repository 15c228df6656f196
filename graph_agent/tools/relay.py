"""Between a server's standard output and ours: lines pass, one that is longer than allowed ends the connection.

The SDK reads a line into memory however long it grows, and one that never ends would take all of it. This file is run as a
script, without the package: `relay.py LIMIT COMMAND ARGUMENTS...`. The command inherits everything else, standard input too.
"""

from __future__ import annotations

import subprocess
import sys


def relay(limit: int, command: list[str]) -> int:
    """Run `command`, and end it with the first line of more than `limit` bytes. Returns its exit code."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        try:
            while line := child.stdout.readline(limit + 1):
                if len(line) > limit:
                    break
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
        finally:
            if child.poll() is None:
                child.kill()
    return child.returncode


if __name__ == "__main__":
    sys.exit(relay(int(sys.argv[1]), sys.argv[2:]))
