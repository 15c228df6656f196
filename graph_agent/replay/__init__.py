"""Replay: run a decision again, offline, from its record alone: `await replay(record, texts)`."""

from graph_agent.replay.replayer import Replayer, replay
from graph_agent.replay.report import Difference, ReplayReport

__all__ = ["Difference", "ReplayReport", "Replayer", "replay"]
