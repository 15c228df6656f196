"""The log lines of a server on stderr: one line for each record, and a limit on lines that repeat."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal

from graph_agent.bootstrap.extras import import_opentelemetry

REPEATS_PER_MINUTE = 10
_WINDOW_SECONDS = 60.0
_MAX_MESSAGES = 1000

_TALKATIVE = {
    "httpx": logging.WARNING,
    "httpx2": logging.WARNING,
    "httpcore": logging.WARNING,
    "httpcore2": logging.WARNING,
    # Its warnings and tracebacks contain URLs too. `graph_agent.tools` logs the reason of a failure without them.
    "mcp.client": logging.CRITICAL,
}
"""Libraries whose lines below a level contain URLs, headers and messages, which may have secret values."""

MCP_LIBRARIES = ("httpx2", "httpcore2", "mcp.client")
"""The libraries that talk to MCP servers. The URL of a server may have a secret in any part."""

# A password may contain "@", so the last one before the path ends the credentials.
_USER_INFO = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/?#'\"<>]*@")
_SECRET_PARAMETER = re.compile(r"(?i)([?&](?:key|api_?key|(?:access_)?token|password|secret)=)[^&#\s'\"<>]+")


ACCESS_LOGGER = "graph_agent.access"
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]


def quiet_libraries(libraries: Iterable[str] = _TALKATIVE) -> None:
    """Drop the log lines of `libraries` that may have secret values."""
    for library in libraries:
        logging.getLogger(library).setLevel(max(_TALKATIVE[library], logging.getLogger().level))


def without_credentials(text: str) -> str:
    """Return `text` with the credentials of every URL replaced by asterisks."""
    return _SECRET_PARAMETER.sub(r"\1***", _USER_INFO.sub(r"\1***@", text))


class RedactingFormatter(logging.Formatter):
    """A formatter that leaves out the credentials of URLs."""

    def format(self, record: logging.LogRecord) -> str:
        return without_credentials(super().format(record))


class OneLineFormatter(RedactingFormatter):
    """A formatter that writes each record on one line, so that a message cannot forge a second record."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).encode("unicode_escape").decode("ascii")


def _json_fields(seconds: float, level: str, logger: str, message: str) -> dict[str, str]:
    at = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return {"time": at, "level": level, "logger": logger, "message": message}


def json_message(text: str, level: str) -> str:
    """Return a message of the command as a line of JSON. Nothing is left out of it: the link of the page has its token."""
    return json.dumps(_json_fields(time.time(), level, "graph_agent.serve", text))


class JsonFormatter(logging.Formatter):
    """A formatter that writes each record as one line of JSON in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        fields = _json_fields(record.created, record.levelname.lower(), record.name, record.getMessage())
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        redacted = {name: without_credentials(text) for name, text in fields.items()}
        return json.dumps({**redacted, **getattr(record, "fields", {})})


def writes_json() -> bool:
    """True if this process writes its log lines as JSON."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


class RepeatLimit(logging.Filter):
    """Passes a message `REPEATS_PER_MINUTE` times; the first record of the next minute has the number of those left out.

    A client can cause some messages as often as it likes; they must not fill the disk.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        # For each message before its arguments are inserted: the start of its minute, and how often it came since.
        self._counts: dict[tuple[str, int, object], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._seconds()
        key = (record.name, record.levelno, str(record.msg))
        started, count = self._counts.get(key, (now, 0))
        left_out = 0
        if now - started >= _WINDOW_SECONDS:
            left_out = max(0, count - REPEATS_PER_MINUTE)
            started, count = now, 0
        if len(self._counts) >= _MAX_MESSAGES:
            self._counts.clear()
        self._counts[key] = (started, count + 1)
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out} times more in the last minute)", ()
        return count < REPEATS_PER_MINUTE


@contextmanager
def log_to_collector() -> Iterator[None]:
    """Send the records that go to stderr to the OpenTelemetry collector too; not the lines of requests."""
    with import_opentelemetry("otlp").open_log_handler() as handler:
        handler.setFormatter(RedactingFormatter())
        handler.addFilter(RepeatLimit())
        logging.getLogger().addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)


def log_to_stderr(level: LogLevel, log_format: LogFormat, *, access_log: bool) -> None:
    """Write the records of every library from `level` on to stderr, and with `access_log` a line for each request."""
    as_text = OneLineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    unlimited, handler = logging.StreamHandler(sys.stderr), logging.StreamHandler(sys.stderr)
    for one in (unlimited, handler):
        one.setFormatter(JsonFormatter() if log_format == "json" else as_text)
    # Requests differ in what their lines say, so repeated ones are not left out.
    access = logging.getLogger(ACCESS_LOGGER)
    access.handlers, access.propagate = [unlimited], False
    access.setLevel(logging.INFO if access_log else logging.CRITICAL)
    handler.addFilter(RepeatLimit())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    quiet_libraries()
