"""Replay: run a decision again, offline, from its record alone: `await replay(record, texts)`."""

import sys
from types import ModuleType
from typing import Any

from graph_agent.replay.replayer import Replayer, replay
from graph_agent.replay.report import Difference, ReplayReport

__all__ = ["Difference", "ReplayReport", "Replayer", "replay"]


class _CallableModule(ModuleType):
    """A module that is called like its function: `graph_agent.replay` is this module once it is imported, else the function."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return replay(*args, **keywords)


sys.modules[__name__].__class__ = _CallableModule
