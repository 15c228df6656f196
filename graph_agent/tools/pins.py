"""Pinned tool definitions: what an operator has accepted, in a lock file beside the constitution.

For each tool of each server the lock file has its definition: description, schemas, title, annotations. A tool that differs, or
is not in the file, is refused. Without a lock file nothing is pinned.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.types import Tool
from pydantic import TypeAdapter, ValidationError

from graph_agent.errors import ConfigurationError
from graph_agent.models.canonical import digest
from graph_agent.models.unique_keys import RepeatedKeyError, unique_keys

_VERSION = 2

Definition = Mapping[str, str]
"""The digests of the parts of a tool's definition, by the name of the part."""


def definition(tool: Tool) -> Definition:
    """Return the digests of a tool's definition."""
    listed = _json(tool)
    parts = {
        "description": [listed.get("description")],
        "schema": [listed.get("inputSchema"), listed.get("outputSchema")],
        "annotations": [listed.get("title"), listed.get("annotations"), listed.get("_meta")],
    }
    return {part: digest(value) for part, value in parts.items()}


@dataclass(frozen=True)
class Pins:
    """The pinned definitions, by server and tool."""

    servers: Mapping[str, Mapping[str, Tool]]

    @classmethod
    def of(cls, listed: Mapping[str, Iterable[Tool]]) -> Pins:
        """Return pins of the tools that each server lists now."""
        return cls({server: {tool.name: tool for tool in tools} for server, tools in listed.items()})

    @classmethod
    def load(cls, file: Path) -> Pins | None:
        """Read a lock file; None if there is none. Raises `ConfigurationError` for one that cannot be read."""
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigurationError(f"the lock file {file} cannot be read") from exc
        return cls.parse(text, f"the lock file {file}")

    @classmethod
    def parse(cls, text: str, what: str) -> Pins:
        """Read the text of a lock file; `what` names it in messages. Raises `ConfigurationError`."""
        try:
            document = json.loads(text, object_pairs_hook=unique_keys)
            if document["version"] != _VERSION:
                raise ConfigurationError(f"{what} has another version: run `graph-agent tools pin` again")
            return cls(_SERVERS.validate_python(document["servers"]))
        except RepeatedKeyError as exc:
            raise ConfigurationError(f"{what} has the key {exc.key!r} twice in one object") from None
        except (ValueError, KeyError, TypeError, ValidationError) as exc:
            raise ConfigurationError(f"{what} cannot be read") from exc

    def save(self, file: Path) -> None:
        """Write the lock file. Raises `ConfigurationError`."""
        try:
            file.write_text(self.to_text(), encoding="utf-8")
        except OSError as exc:
            raise ConfigurationError(f"the lock file {file} cannot be written") from exc

    def to_text(self) -> str:
        """Return the text of the lock file."""
        servers = {server: {name: _json(tool) for name, tool in tools.items()} for server, tools in self.servers.items()}
        return json.dumps({"version": _VERSION, "servers": servers}, indent=2, sort_keys=True) + "\n"

    def differences(self, now: Pins) -> list[str]:
        """Return one line for each tool whose pinned definition is not the one in `now`."""
        lines = []
        for server in sorted({*self.servers, *now.servers}):
            before, after = self.servers.get(server, {}), now.servers.get(server, {})
            for tool in sorted({*before, *after}):
                if tool not in after:
                    lines.append(f"{server}.{tool}: it is pinned, but not served")
                elif (why := self._difference(server, tool, after[tool])) is not None:
                    lines.append(f"{server}.{tool}: {why}")
        return lines

    def names(self, server: str) -> frozenset[str]:
        """Return the names of a server's pinned tools."""
        return frozenset(self.servers.get(server, {}))

    def difference(self, server: str, tool: Tool) -> str | None:
        """Return in a few words how a tool differs from its pin; None if it does not."""
        return self._difference(server, tool.name, tool)

    def _difference(self, server: str, name: str, now: Tool) -> str | None:
        known = self.servers.get(server, {}).get(name)
        if known is None:
            return "it is not pinned"
        pinned = definition(known)
        changed = [part for part, value in definition(now).items() if pinned[part] != value]
        return f"its {' and '.join(changed)} changed" if changed else None


def _json(tool: Tool) -> dict[str, Any]:
    listed: dict[str, Any] = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    return listed


_SERVERS: TypeAdapter[dict[str, dict[str, Tool]]] = TypeAdapter(dict[str, dict[str, Tool]])


def lock_file(constitution: Path) -> Path:
    """Return the path of the lock file of a constitution: `constitution.lock` for `constitution.md`.

    Raises `ConfigurationError` for a constitution whose name ends with `.lock`: it would be overwritten.
    """
    path = constitution.with_suffix(".lock")
    if path == constitution:
        raise ConfigurationError(f"the constitution {constitution} has the name of a lock file")
    return path
