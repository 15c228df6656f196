"""Running a program of others: it sees the system's programs and its own folder, no network, and nothing of the user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

MEMORY_BYTES = 4 * 1024**3
CPU_SECONDS = 300
FILE_BYTES = 512 * 1024**2
_SYSTEM = ("/usr", "/etc/ssl", "/etc/alternatives", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/ld.so.cache")
_LINKS = ("/bin", "/sbin", "/lib", "/lib64")


def can_confine() -> bool:
    """Return True if bubblewrap runs here."""
    if shutil.which("bwrap") is None or shutil.which("prlimit") is None:
        return False
    probe = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def confined(command: Sequence[str], folder: Path, data: Path, variables: Mapping[str, str]) -> list[str]:
    """Return the command that runs `command` confined: it reads its `folder`, writes to `data`, and has these variables."""
    given = {
        "PATH": f"{folder}/bin:{Path(command[0]).parent}:/usr/bin:/bin",
        "HOME": str(data),
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        **variables,
    }
    limits = ["prlimit", f"--data={MEMORY_BYTES}", f"--cpu={CPU_SECONDS}", f"--fsize={FILE_BYTES}", "--core=0"]
    box = ["bwrap", "--unshare-all", "--die-with-parent", "--clearenv", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for place in _SYSTEM:
        box += ["--ro-bind-try", place, place]
    for link in _LINKS:
        box += ["--symlink", str(Path(link).readlink()), link] if Path(link).is_symlink() else ["--ro-bind-try", link, link]
    # The interpreter of Python and that of npm's programs may be installed elsewhere.
    for place in {sys.base_prefix, str(Path(os.path.realpath(command[0])).parents[1])}:
        if not Path(place).is_relative_to("/usr") and Path(place) != folder:
            box += ["--ro-bind", place, place]
    box += ["--ro-bind", str(folder), str(folder), "--bind", str(data), str(data), "--chdir", str(data)]
    for name, value in given.items():
        box += ["--setenv", name, value]
    return [*limits, *box, "--", *command]
