"""The file that lists MCP servers: the `mcpServers` JSON that MCP clients share.

    {"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/data"]},
        "wiki": {"url": "https://wiki.example/mcp", "headers": {"Authorization": "Bearer ${WIKI_TOKEN}"}}
    }}

`${NAME}` in any text is replaced by that variable of the environment. Keys that `_Entry` does not have belong to other clients
and are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from mcp import StdioServerParameters
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graph_agent.errors import ConfigurationError
from graph_agent.tools.identity import ClientCredentials, invalid_header
from graph_agent.tools.transport import HttpServer, Server

MAX_FILE_CHARS = 1024 * 1024
DEFAULT_TIMEOUT_SECONDS = 10.0
MAX_TIMEOUT_SECONDS = 3600.0
_MIN_SECRET = 4
"""A shorter line of a value, such as a brace, is no secret, and neither is a shorter argument."""
_OPTION = re.compile(r"--?[a-z][a-z-]*", re.IGNORECASE)

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# No dot, because it separates the name of a server from the name of its tool.
_SERVER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ -]{0,63}")


@dataclass(frozen=True)
class ServerConfig:
    """One server of the file."""

    name: str
    server: Server = field(repr=False)
    trusted: bool = False
    """The server gets the user and the operation key, and its hints and its ledger are believed."""
    prefixed: bool = False
    """Its tools are named `server.tool`, even if no other server has a tool of the same name."""
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    """The seconds for one call without a deadline, and for connecting."""
    credentials: ClientCredentials | None = None
    """The OAuth client credentials by which the runtime identifies itself to a server over HTTP."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """The values that no message may contain: of variables and headers, in arguments, and in the URL."""


class _OAuth(BaseModel):
    """OAuth client credentials."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    token_url: str = Field(pattern=r"^https?://\S+$")
    client_id: str
    client_secret: str
    scope: str | None = None


class _Entry(BaseModel):
    """The JSON object of one server."""

    model_config = ConfigDict(extra="ignore", strict=True, hide_input_in_errors=True)

    type: Literal["stdio", "http", "streamable-http", "streamableHttp"] | None = None
    command: str | None = Field(default=None, min_length=1)
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = Field(default=None, pattern=r"^https?://\S+$")
    headers: dict[str, str] = {}
    oauth: _OAuth | None = None
    trusted: bool = False
    prefix: bool = False
    timeout: float = Field(default=DEFAULT_TIMEOUT_SECONDS, gt=0, le=MAX_TIMEOUT_SECONDS)


def read_server_file(path: Path, environment: Mapping[str, str]) -> list[ServerConfig]:
    """Return the servers of the file at `path`, in its order.

    Raises `ConfigurationError` that names the server and the key or variable, never a value.
    """
    try:
        with path.open(encoding="utf-8") as file:
            document = json.loads(file.read(MAX_FILE_CHARS))
    except OSError as exc:
        raise ConfigurationError(f"the file of MCP servers {path} cannot be read") from exc
    except (ValueError, RecursionError) as exc:
        raise ConfigurationError(f"the file of MCP servers {path} is not JSON") from exc
    entries = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(entries, dict):
        raise ConfigurationError(f'{path} has no object "mcpServers"')
    servers = [_read_server(name, entry, environment) for name, entry in entries.items()]
    configured = [server for server in servers if server is not None]
    if not configured:
        raise ConfigurationError(f"{path} lists no MCP server")
    return configured


def _read_server(name: str, entry: Any, environment: Mapping[str, str]) -> ServerConfig | None:
    if not _SERVER_NAME.fullmatch(name):
        raise ConfigurationError(f"the name of an MCP server has 1 to 64 letters, digits, '_', '-' or spaces, unlike {name!r}")
    if isinstance(entry, dict) and entry.get("disabled") is True:
        return None
    values: list[str] = []
    try:
        read = _Entry.model_validate(_replace_variables(entry, name, environment, values))
    except ValidationError as exc:
        where = ".".join(str(part) for part in exc.errors(include_input=False)[0]["loc"])
        raise ConfigurationError(f"the MCP server '{name}': {where or 'its entry'} is not valid") from None
    over_http = read.url is not None
    if over_http is (read.command is not None) or (read.type is not None and over_http is (read.type == "stdio")):
        raise ConfigurationError(f"the MCP server '{name}' needs either a command or a url, and a type that fits")
    if read.oauth is not None and not over_http:
        raise ConfigurationError(f"the MCP server '{name}': oauth is for a url")
    credentials = None if read.oauth is None else ClientCredentials(**read.oauth.model_dump())
    secrets = {*values, *read.env.values(), *read.headers.values(), credentials.client_secret if credentials else ""}
    secrets |= {text for text in (*_argument_values(read.args), *_url_values(read.url or "")) if len(text) >= _MIN_SECRET}
    # An explanation quotes one line, so the lines of a longer value, such as a private key, are hidden by themselves.
    lines = {line.strip() for value in secrets if "\n" in value.strip() for line in value.splitlines()}
    secrets |= {line for line in lines if len(line) >= _MIN_SECRET}
    return ServerConfig(
        name=name,
        server=_server(name, read),
        trusted=read.trusted,
        prefixed=read.prefix,
        timeout=read.timeout,
        credentials=credentials,
        secrets=tuple(sorted(filter(None, secrets), key=len, reverse=True)),
    )


def _argument_values(arguments: list[str]) -> Iterator[str]:
    """Yield what may be a secret in the arguments of a command: all but the names of options.

    A token cannot be distinguished from a path, so both are hidden.
    """
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if equals and _OPTION.fullmatch(option):
            yield value
        elif not (_OPTION.fullmatch(argument) and (argument.startswith("--") or len(argument) == len("-x"))):
            yield argument


def _url_values(url: str) -> Iterator[str]:
    """Yield what may be a secret in a URL: user and password, the parts of the path, and the values of the query."""
    parts = urlsplit(url)
    credentials = parts.netloc.rpartition("@")[0]
    query = [pair.partition("=")[2] or pair for pair in parts.query.split("&")]
    for text in (credentials, *credentials.split(":"), *parts.path.split("/"), *query, parts.fragment):
        yield text
        yield unquote(text)


def _server(name: str, read: _Entry) -> Server:
    if read.command is not None:
        return StdioServerParameters(command=read.command, args=read.args, env=read.env, cwd=read.cwd)
    assert read.url is not None
    if (header := invalid_header(read.headers)) is not None:
        raise ConfigurationError(f"the MCP server '{name}': the header {header!r} is not valid")
    return HttpServer(read.url, read.headers)


def _replace_variables(value: Any, server: str, environment: Mapping[str, str], values: list[str]) -> Any:
    """Return `value` with every `${NAME}` replaced, and append the values of these variables to `values`."""

    def read(reference: re.Match[str]) -> str:
        variable = reference[1]
        if not _VARIABLE.fullmatch(variable):
            raise ConfigurationError(f"the MCP server '{server}': '{reference[0]}' names no variable of the environment")
        if variable not in environment:
            raise ConfigurationError(f"the MCP server '{server}' needs the variable {variable}, which is not set")
        values.append(environment[variable])
        return environment[variable]

    if isinstance(value, str):
        return _REFERENCE.sub(read, value)
    if isinstance(value, list):
        return [_replace_variables(item, server, environment, values) for item in value]
    if isinstance(value, dict):
        return {key: _replace_variables(item, server, environment, values) for key, item in value.items()}
    return value
