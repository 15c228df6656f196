"""The time zone of a user: a name of the IANA database, such as Europe/Berlin."""

from __future__ import annotations

from typing import Annotated, Final
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

_MAX_LENGTH: Final = 64
_OF_MACHINES: Final = frozenset({"Factory", "localtime", "posix", "posixrules", "right"})
"""Files and folders of a machine beside the zones of the database; those in `right` count leap seconds, and are wrong here."""
_NAME: Final = r"^([A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,3})?$"

TimeZoneName = Annotated[str, Field(max_length=_MAX_LENGTH, pattern=_NAME)]
"""The name of a time zone, or the empty text for none. A recorded name need not be known where it is read."""


def time_zone(name: str) -> ZoneInfo | None:
    """Return a time zone by its name; None for the empty name, and for one that this machine does not know."""
    try:
        return ZoneInfo(name) if name and name.partition("/")[0] not in _OF_MACHINES else None
    except (ValueError, OSError, LookupError):
        # A folder of the database, a file that is no zone, or no such name.
        return None


def _require_known(name: str) -> str:
    if name and time_zone(name) is None:
        raise ValueError("is no time zone that is known here: give a name such as Europe/Berlin")
    return name


KnownTimeZone = Annotated[TimeZoneName, AfterValidator(_require_known)]
"""The name of a time zone that this machine knows."""
