"""The conversation that a terminal session showed last, for `graph-agent ask --continue`."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from graph_agent.models.base import Frozen
from graph_agent.models.decision import PendingAction, ShownQuestion
from graph_agent.settings import Settings

_MEMORY_SECONDS = 24 * 3600
"""The age at which a file is ignored and removed: the number of a session is used again after a restart of the machine."""


class ShownConversation(Frozen):
    """The conversation that a terminal session showed last, with the question that was open then.

    It lets `--continue` need no id. Another terminal or the page may ask a question meanwhile, and a yes typed here must not
    answer it, so each session has a file.
    """

    user_id: str
    conversation_id: str
    pending: PendingAction | None
    ended: tuple[str, ...] = ()
    """The closing decisions of approval requests whose replies were printed since the user's last message."""

    def question_in(self, user_id: str, conversation_id: str | None) -> ShownQuestion | None:
        """Return the question that this terminal shows in a conversation; None if it does not show the conversation."""
        if (user_id, conversation_id) != (self.user_id, self.conversation_id):
            return None
        return ShownQuestion(pending_action=None if self.pending is None else self.pending.id)


def last_shown(settings: Settings) -> ShownConversation | None:
    """Return what this terminal session showed last; None if it showed nothing yet."""
    file = _session_file(settings)
    with suppress(OSError, ValidationError):
        if file.stat().st_mtime > time.time() - _MEMORY_SECONDS:
            return ShownConversation.model_validate_json(file.read_bytes())
    return None


def remember(settings: Settings, shown: ShownConversation) -> None:
    """Store what this terminal session has shown, and remove the files of old sessions."""
    file = _session_file(settings)
    # A home that cannot be written only makes `--continue` take the user's last conversation.
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_text(shown.model_dump_json(), encoding="utf-8")
        for other in file.parent.iterdir():
            if other.stat().st_mtime < time.time() - _MEMORY_SECONDS:
                other.unlink(missing_ok=True)


def _session_file(settings: Settings) -> Path:
    return settings.home / "terminals" / str(os.getsid(0))
