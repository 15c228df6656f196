"""One Chromium for all tests of a run, which ends with the run.

Starting one takes as long as most tests of the page, and each module would start its own.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from tests.page.site import launched
from tests.run_folder import wait_for_the_end


def serve(folder: Path) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    with launched(f"--remote-debugging-port={port}"):
        print(f"http://127.0.0.1:{port}", flush=True)
        wait_for_the_end(folder)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
