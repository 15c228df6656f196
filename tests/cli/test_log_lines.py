"""The log lines of a server."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from graph_agent.cli.log_lines import (
    REPEATS_PER_MINUTE,
    JsonFormatter,
    OneLineFormatter,
    RepeatLimit,
    without_credentials,
)
from graph_agent.cli.running import configure_logging


def _record(text: str, *args: object, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord("graph_agent.test", level, __file__, 1, text, args, None)


def test_a_message_that_repeats_is_limited_and_counted() -> None:
    now = [0.0]
    limit = RepeatLimit(lambda: now[0])
    passed = [limit.filter(_record("client %d is slow", number)) for number in range(1000)]
    assert passed == [True] * REPEATS_PER_MINUTE + [False] * (1000 - REPEATS_PER_MINUTE)
    assert limit.filter(_record("another message"))
    now[0] = 60.0
    next_minute = _record("client %d is slow", 1000)
    assert limit.filter(next_minute)
    assert next_minute.getMessage() == "client 1000 is slow (and 990 times more in the last minute)"


def test_a_message_cannot_forge_a_second_line() -> None:
    line = OneLineFormatter("%(message)s").format(_record("one\r\n2026 ERROR two\x1b[31m\u2028three"))
    assert line == r"one\r\n2026 ERROR two\x1b[31m\u2028three"


def test_a_json_line_contains_the_exception_and_cannot_be_forged() -> None:
    try:
        raise ValueError("postgresql://ann:p@ss@host/name\n{}")
    except ValueError:
        record = _record("one\r\ntwo\x1b[31m\u2028")
        record.exc_info = sys.exc_info()
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    fields = json.loads(line)
    assert (fields["level"], fields["logger"], fields["message"]) == ("warning", "graph_agent.test", "one\r\ntwo\x1b[31m\u2028")
    assert "postgresql://***@host/name" in fields["exception"]
    assert "p@ss" not in line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:secret@host:5432/name", "postgresql://***@host:5432/name"),
        ("'https://token@host/path?x=1'", "'https://***@host/path?x=1'"),
        ("GET https://host/v1?alt=sse&key=AIza-1 HTTP/1.1", "GET https://host/v1?alt=sse&key=*** HTTP/1.1"),
        ("https://host/?api_key=a&Access_Token=b#c", "https://host/?api_key=***&Access_Token=***#c"),
        ("https://host/path and ann@example.org", "https://host/path and ann@example.org"),
    ],
)
def test_the_credentials_of_a_url_are_not_logged(text: str, shown: str) -> None:
    assert without_credentials(text) == shown
    assert OneLineFormatter("%(message)s").format(_record("%s", text)) == shown


def test_the_log_of_traceback_has_no_credentials(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    # A server that another test started in this process has quieted this library.
    caplog.set_level(logging.NOTSET, logger="httpx")
    configure_logging(verbose=True)
    logging.getLogger("httpx").info("HTTP Request: POST %s", "https://ann:secret@host/v1?key=AIza-1")
    configure_logging()
    assert capsys.readouterr().err == "HTTP Request: POST https://***@host/v1?key=***\n"
