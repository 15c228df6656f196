"""The file that lists MCP servers: the `mcpServers` JSON that MCP clients share.

    {"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/data"]},
        "notes": {"python": "notes.py", "args": ["notes.db"]},
        "stock": {"functions": "inventory.py"},
        "wiki": {"url": "https://wiki.example/mcp", "headers": {"Authorization": "Bearer ${WIKI_TOKEN}"}},
        "team": {"url": "https://team.example/mcp", "user_token": {"exchange": "https://login.example/token", …}}
    }}

VS Code's name for the object, `servers`, is accepted too. `${NAME}` in any text is replaced by that variable of the
environment. Keys that `_Entry` does not have belong to other clients and are ignored, unless they look like a misspelt one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from mcp import StdioServerParameters
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graph_agent.errors import ConfigurationError
from graph_agent.models.base import nearest_name
from graph_agent.models.canonical import digest
from graph_agent.models.config import DEFAULT_CALL_SECONDS
from graph_agent.models.unique_keys import RepeatedKeyError, unique_keys
from graph_agent.net.addresses import InsecureUrlError, require_protected
from graph_agent.tools.functions import FUNCTIONS_DATABASE
from graph_agent.tools.identity import ClientCredentials, invalid_header
from graph_agent.tools.session import start_seconds
from graph_agent.tools.transport import HttpServer, Server
from graph_agent.tools.user_tokens import UserTokenExchange

MAX_FILE_CHARS = 1024 * 1024
MAX_TIMEOUT_SECONDS = 3600.0
_MIN_SECRET = 4
"""A shorter line of a value, such as a brace, is no secret, and neither is a shorter argument."""
_OPTION = re.compile(r"--?[a-z][a-z-]*", re.IGNORECASE)
_FILE = re.compile(r"[\w./~ -]*\w\.(?:py|[cm]?[jt]s|json|ya?ml|toml|db|sqlite3?|sh|md|txt|csv)")
"""An argument that names a file, by its ending."""

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# No dot, because it separates the name of a server from the name of its tool.
_SERVER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ -]{0,63}")


class AnyVariables(dict[str, str]):
    """An environment with every variable, for a file that is only compared: no value of a secret is needed."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        # Valid wherever a variable may be: as a URL too.
        return f"https://{name}.invalid"


@dataclass(frozen=True)
class ServerConfig:
    """One server of the file."""

    name: str
    server: Server = field(repr=False)
    trusted: bool = False
    """The server gets the user and the operation key, and its hints and its ledger are believed."""
    functions: bool = False
    """Its tools are functions of a file, served by a process of ours: if that cannot start, the file is wrong."""
    prefixed: bool = False
    """Its tools are named `server.tool`, even if no other server has a tool of the same name."""
    timeout: float = DEFAULT_CALL_SECONDS
    """The seconds for one call, in a turn at most half of the time that it has left."""
    start_timeout: float | None = None
    """The seconds for connecting, which may have to download the server first; None: see `start_seconds`."""
    credentials: ClientCredentials | None = None
    """The OAuth client credentials by which the runtime identifies itself to a server over HTTP."""
    user_token: UserTokenExchange | None = None
    """The issuer that exchanges the token of the signed-in user for one with which this server acts with their rights."""
    empty: tuple[str, ...] = field(default=(), repr=False)
    """The command, with its arguments, that removes the data of the server before a test case; none if it has no such way."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """The values that no message may contain: of variables and headers, in arguments, and in the URL."""

    @property
    def start_seconds(self) -> float:
        """The seconds for connecting; see the function of this name."""
        return start_seconds(self.timeout, self.start_timeout)


class _Entry(BaseModel):
    """The JSON object of one server."""

    model_config = ConfigDict(extra="ignore", strict=True, hide_input_in_errors=True)

    type: Literal["stdio", "http", "streamable-http", "streamableHttp"] | None = None
    command: str | None = Field(default=None, min_length=1)
    python: str | None = Field(default=None, min_length=1)
    """A script that runs with the interpreter of this process, and so with its packages."""
    functions: str | None = Field(default=None, min_length=1)
    """A file or a module whose functions are the tools: see `function_server.py`. They are trusted."""
    database: str | None = Field(default=None, min_length=1)
    """The URL of the database for functions that take a connection."""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = Field(default=None, pattern=r"^https?://\S+$")
    headers: dict[str, str] = {}
    oauth: ClientCredentials | None = None
    user_token: UserTokenExchange | None = None
    trusted: bool = False
    allow_http: bool = False
    """The URLs may be plain `http:` although they lead to another machine."""
    prefix: bool = False
    empty: list[str] = []
    """A command and its arguments, which remove the data of the server: `validate --real-tools` runs it before each case."""
    disabled: bool = False
    timeout: float = Field(default=DEFAULT_CALL_SECONDS, gt=0, le=MAX_TIMEOUT_SECONDS)
    start_timeout: float | None = Field(default=None, gt=0, le=MAX_TIMEOUT_SECONDS)


def read_server_file(path: Path, environment: Mapping[str, str]) -> list[ServerConfig]:
    """Return the servers of the file at `path`, in its order.

    Raises `ConfigurationError` that names the server and the key or variable, never a value.
    """
    servers = (_read_server(name, entry, environment) for name, entry in _read_entries(path).items())
    configured = [server for server in servers if server is not None]
    if not configured:
        raise ConfigurationError(f"{path} lists no MCP server")
    return configured


def servers_of_rules(path: Path) -> list[dict[str, Any]]:
    """Return what a rule set has of the servers in the file at `path`: name, trust, and the digest of the entry as written.

    The values of variables and headers, and the secrets of clients, are no part of it. Raises `ConfigurationError`.
    """
    entries = _read_entries(path)
    return [
        {"name": one.name, "trusted": one.trusted, "entry": digest(_without_secrets(entries[one.name]))}
        for one in read_server_file(path, AnyVariables())
    ]


def _without_secrets(entry: dict[str, Any]) -> dict[str, Any]:
    named = {key: sorted(value) for key in ("env", "headers") if isinstance(value := entry.get(key), dict)}
    clients = {
        key: {name: text for name, text in value.items() if name != "client_secret"}
        for key in ("oauth", "user_token")
        if isinstance(value := entry.get(key), dict)
    }
    return {**entry, **named, **clients}


def _read_entries(path: Path) -> dict[str, Any]:
    """Return the entries of the file by the names of their servers, as they are written. Raises `ConfigurationError`."""
    try:
        with path.open(encoding="utf-8") as file:
            document = json.loads(file.read(MAX_FILE_CHARS), object_pairs_hook=unique_keys)
    except OSError as exc:
        raise ConfigurationError(f"the file of MCP servers {path} cannot be read") from exc
    except RepeatedKeyError as exc:
        raise ConfigurationError(f"the file of MCP servers has the key {exc.key!r} twice in one object") from None
    except json.JSONDecodeError as exc:
        raise ConfigurationError(f"the file of MCP servers {path} is not JSON: line {exc.lineno}: {exc.msg}") from None
    except (ValueError, RecursionError) as exc:
        raise ConfigurationError(f"the file of MCP servers {path} is not JSON") from exc
    keys = [key for key in ("mcpServers", "servers") if isinstance(document, dict) and isinstance(document.get(key), dict)]
    if len(keys) != 1:
        raise ConfigurationError(f'{path} has {"two objects" if keys else "no object"} "mcpServers" (or "servers")')
    entries: dict[str, Any] = document[keys[0]]
    return entries


def _require_known_keys(name: str, entry: dict[str, Any]) -> None:
    """Raise `ConfigurationError` for a key that looks like a misspelt one of ours, and for a transport that we do not have."""
    if "sse" in (entry.get("type"), entry.get("transport")):
        raise ConfigurationError(f"the MCP server '{name}': SSE is not supported; use its address for streamable HTTP")
    for key in entry.keys() - _Entry.model_fields.keys():
        if (meant := nearest_name(key, _Entry.model_fields, 0.85)) is not None:
            raise ConfigurationError(f"the MCP server '{name}': {key!r} is no key; the key is '{meant}'")


def _read_server(name: str, entry: Any, environment: Mapping[str, str]) -> ServerConfig | None:
    if not _SERVER_NAME.fullmatch(name):
        raise ConfigurationError(f"the name of an MCP server has 1 to 64 letters, digits, '_', '-' or spaces, unlike {name!r}")
    if isinstance(entry, dict):
        if entry.get("disabled") is True:
            return None
        _require_known_keys(name, entry)
    values: list[str] = []
    try:
        read = _Entry.model_validate(_replace_variables(entry, name, environment, values))
    except ValidationError as exc:
        where = ".".join(str(part) for part in exc.errors(include_input=False)[0]["loc"])
        raise ConfigurationError(f"the MCP server '{name}': {where or 'its entry'} is not valid") from None
    over_http = read.url is not None
    ways = (read.command, read.python, read.functions, read.url)
    if ways.count(None) != len(ways) - 1 or (read.type is not None and over_http is (read.type == "stdio")):
        needed = "either a command, a python script, a file of functions or a url, and a type that fits"
        raise ConfigurationError(f"the MCP server '{name}' needs {needed}")
    if read.functions is not None and read.args:
        raise ConfigurationError(f"the MCP server '{name}': args are for a command; functions read the environment, see env")
    if read.database is not None and read.functions is None:
        raise ConfigurationError(f"the MCP server '{name}': database is for functions")
    if read.oauth is not None and not over_http:
        raise ConfigurationError(f"the MCP server '{name}': oauth is for a url")
    if read.user_token is not None and not over_http:
        raise ConfigurationError(f"the MCP server '{name}': user_token is for a url")
    exchange = read.user_token.exchange if read.user_token else ""
    try:
        for url in filter(None, (read.url, read.oauth.token_url if read.oauth else "", exchange)):
            require_protected(url, allow_http=read.allow_http)
    except InsecureUrlError:
        text = f"the MCP server '{name}' has an http: URL of another machine: use https:, or \"allow_http\": true"
        raise ConfigurationError(text) from None
    except ValueError:
        raise ConfigurationError(f"the MCP server '{name}': url is not valid") from None
    secrets = {*values, *read.env.values(), *read.headers.values(), read.oauth.client_secret if read.oauth else ""}
    secrets |= {read.user_token.client_secret} if read.user_token else set()
    urls = (read.url or "", read.database or "", exchange)
    parts = (*_argument_values(read.args), *(value for url in urls for value in _url_values(url)))
    secrets |= {text for text in parts if len(text) >= _MIN_SECRET}
    # An explanation quotes one line, so the lines of a longer value, such as a private key, are hidden by themselves.
    lines = {line.strip() for value in secrets if "\n" in value.strip() for line in value.splitlines()}
    secrets |= {line for line in lines if len(line) >= _MIN_SECRET}
    return ServerConfig(
        name=name,
        server=_server(name, read),
        trusted=read.trusted or read.functions is not None,
        functions=read.functions is not None,
        prefixed=read.prefix,
        timeout=read.timeout,
        start_timeout=read.start_timeout,
        credentials=read.oauth,
        user_token=read.user_token,
        empty=tuple(read.empty),
        secrets=tuple(sorted(filter(None, secrets), key=len, reverse=True)),
    )


def _argument_values(arguments: list[str]) -> Iterator[str]:
    """Yield what may be a secret in the arguments of a command: all but the names of options.

    The name of a file is shown: a mistyped one is the usual reason why a command fails.
    """
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if equals and _OPTION.fullmatch(option):
            yield value
        elif _FILE.fullmatch(argument):
            continue
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
    if read.functions is not None:
        # -P, because a file of the current folder must not be imported in the place of a package.
        arguments = ["-P", "-m", "graph_agent.tools.function_server", read.functions]
        variables = {**read.env, **({FUNCTIONS_DATABASE: read.database} if read.database else {})}
        return StdioServerParameters(command=sys.executable, args=arguments, env=variables, cwd=read.cwd)
    if (command := read.command or (read.python and sys.executable)) is not None:
        arguments = [read.python, *read.args] if read.python else read.args
        return StdioServerParameters(command=command, args=arguments, env=read.env, cwd=read.cwd)
    assert read.url is not None
    if (header := invalid_header(read.headers)) is not None:
        raise ConfigurationError(f"the MCP server '{name}': the header {header!r} is not valid")
    return HttpServer(read.url, read.headers, read.allow_http)


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
