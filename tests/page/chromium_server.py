"""One Chromium for all tests of a run, which ends with the run.

Starting one takes as long as most tests of the page, and each module would start its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.page.site import launched
from tests.run_folder import wait_for_the_end
from tests.serving import free_ports


def serve(folder: Path) -> None:
    [port] = free_ports(1)
    with launched(f"--remote-debugging-port={port}"):
        print(f"http://127.0.0.1:{port}", flush=True)
        wait_for_the_end(folder)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
