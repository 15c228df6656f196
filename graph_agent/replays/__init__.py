"""Replays: run a decision again, offline, from its record alone: `await replay(record, texts)`."""

from graph_agent.replays.replayer import Replayer, replay
from graph_agent.replays.report import Difference, ReplayReport

__all__ = ["Difference", "ReplayReport", "Replayer", "replay"]
