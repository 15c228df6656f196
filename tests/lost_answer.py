"""The ways in which the answer to one call is lost. Without imports of a server: a pipe that starts often needs only them."""

from __future__ import annotations

from enum import StrEnum


class Fault(StrEnum):
    """What happens to one call of the tool."""

    NONE = "none"
    DROPPED = "dropped"
    """The call takes effect, and the connection stays open without an answer."""
    DELAYED = "delayed"
    """The call arrives after its client has stopped waiting."""
    CUT_BEFORE = "cut before"
    CUT_AFTER = "cut after"


LOSSES = [Fault.DROPPED, Fault.DELAYED, Fault.CUT_BEFORE, Fault.CUT_AFTER]
