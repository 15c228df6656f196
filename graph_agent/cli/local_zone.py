"""The time zone of this machine, in which a command says times."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from graph_agent.models.time_zone import time_zone

_UTC: Final = frozenset({"UTC", "Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal"})


def local_zone(link: Path = Path("/etc/localtime")) -> str:
    """Return the name of this machine's time zone, from TZ or else from the `link` of the system; empty if it is not known.

    Of UTC, in which times are said without a zone, it is empty too.
    """
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name:
        name = str(link.resolve()).partition("zoneinfo/")[2] if link.is_symlink() else ""
    return "" if name in _UTC or time_zone(name) is None else name
