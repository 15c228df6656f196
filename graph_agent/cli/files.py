"""The settings of a command with the files that its options name."""

from __future__ import annotations

from pathlib import Path

from graph_agent.settings import Settings, read_settings


def command_settings(mcp: Path | None = None, constitution: Path | None = None, policy: Path | None = None) -> Settings:
    """Return the settings of this process, with the files that the options --mcp, --constitution and --policy name."""
    given = {"mcp": mcp, "constitution": constitution, "policy": policy}
    return read_settings().model_copy(update={name: path for name, path in given.items() if path is not None})
