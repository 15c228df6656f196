"""Shared parts of the commands: exit codes, messages, failures and the event loop."""

from __future__ import annotations

import getpass
import logging
import os
import signal
import sys
import traceback
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn, Protocol, TypeVar

import typer

from graph_agent.cli import log_lines
from graph_agent.errors import GraphAgentError, RecordRolledBackError, ServiceError, ServiceErrorCode
from graph_agent.reply.text import visible
from graph_agent.tools.progress import starts_to

T = TypeVar("T")


class Run(Protocol):
    """Runs a coroutine to completion in the command's event loop."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], /) -> T: ...


PROGRAM = "graph-agent"
DONE, FAILED, WRONG_USAGE, UNFINISHED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143
"""UNFINISHED: a check could not finish, so that its question has no answer."""

_NO_ANSWER = "the check could not finish"
_USAGE_CODES = frozenset({ServiceErrorCode.VALIDATION_ERROR, ServiceErrorCode.INVALID_ID_FORMAT})

# Typer exports only this subclass of it.
_UsageError: Any = typer.BadParameter.__base__
"""The error about an option or an argument, if Typer does not print it itself."""


def print_stderr(text: str, level: str = "info") -> None:
    """Print a message on stderr, with the characters escaped that could control a terminal; as JSON if log lines are JSON."""
    typer.echo(log_lines.json_message(text, level) if log_lines.writes_json() else visible(text), err=True)


def print_error(text: str) -> None:
    """Print on stderr what has failed."""
    print_stderr(f"{PROGRAM}: {text}", "error")


def open_file(path: str | Path, mode: str = "r") -> IO[Any]:
    """Open a file that the user names, text as UTF-8; if that fails, exit with a usage error."""
    try:
        return Path(path).open(mode, encoding=None if "b" in mode else "utf-8")
    except OSError as exc:
        wrong_usage(f"the file {path} cannot be {'written' if 'w' in mode else 'read'}: {exc.strerror}")


def read_text(path: Path, limit: int = -1) -> str:
    """Return at most `limit` characters of a file that the user names; if it cannot be read, exit with a usage error."""
    try:
        with open_file(path) as file:
            return str(file.read(limit))
    except (OSError, UnicodeDecodeError):
        wrong_usage(f"the file {path} cannot be read")


def wrong_usage(text: str) -> NoReturn:
    """Print `text` on stderr and exit with the code of a usage error."""
    print_error(text)
    raise typer.Exit(WRONG_USAGE)


def configure_logging(*, verbose: bool = False, as_json: bool = False) -> None:
    """Discard log records, because commands report failures themselves; with `verbose` print them on stderr."""
    handler = logging.StreamHandler(sys.stderr) if verbose else logging.NullHandler()
    handler.setFormatter(log_lines.JsonFormatter() if as_json else log_lines.RedactingFormatter())
    logging.basicConfig(force=True, level=logging.INFO if verbose else logging.CRITICAL, handlers=[handler])
    log_lines.quiet_libraries(log_lines.MCP_LIBRARIES)


def local_account() -> str:
    """Return the account that runs the command; empty in a container without an entry for its user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


@contextmanager
def open_in_loop(resource: AbstractAsyncContextManager[T]) -> Iterator[tuple[T, Run]]:
    """Enter `resource` in a new event loop; yield its value and the loop's `run`.

    The loop does not run between two calls of `run`, so a prompt may block. Ctrl-C cancels the running coroutine, SIGTERM ends
    the command; the resource is closed in both cases.
    """
    # Imported here, because help needs no event loop: it loads the sockets and TLS of the standard library.
    import asyncio

    # Before the loop, whose tasks inherit it.
    with starts_to(print_stderr), _handle_sigterm(), asyncio.Runner() as runner, ExitStack() as stack:
        entered = runner.run(resource.__aenter__())
        stack.push(lambda *failure: runner.run(resource.__aexit__(*failure)))
        yield entered, runner.run


@contextmanager
def _handle_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that a running turn still gets its terminal row."""
    terminated = False

    def terminate(signum: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        # While the event loop runs, asyncio's handler cancels the running task; otherwise this raises KeyboardInterrupt.
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):
            # A shell starts background jobs with SIGINT ignored; SIGTERM must still end them.
            raise KeyboardInterrupt
        interrupt(signum, frame)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt:
        if terminated:
            raise SystemExit(TERMINATED) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def report_failures(*, show_traceback: bool = False) -> Iterator[None]:
    """Print an exception of this context as one sentence, or with its traceback, and exit."""
    try:
        yield
    except GraphAgentError as exc:
        # Of a database that fails, which is the user's own, the reason is shown.
        print_error(getattr(exc, "reason", None) or getattr(exc, "message", None) or str(exc))
        sys.exit(WRONG_USAGE if isinstance(exc, ServiceError) and exc.code in _USAGE_CODES else _failed(exc))
    except _UsageError as exc:
        print_error(exc.format_message())
        sys.exit(WRONG_USAGE)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has closed the pipe. Flushing what is buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except Exception as exc:
        if show_traceback:
            print_stderr(log_lines.without_credentials(traceback.format_exc()), "error")
        elif isinstance(exc, UnicodeEncodeError) or isinstance(exc.__cause__, UnicodeEncodeError):
            # A path may have any bytes; the others are ids, which are looked for in the database.
            print_error("an argument of the command is not UTF-8 text")
        elif isinstance(exc, PermissionError) and exc.filename:
            # A path of the settings or of the command line, in a folder that this user may not enter.
            print_error(f"{exc.filename} cannot be used: {exc.strerror}")
        else:
            # For example a full disk.
            reason = f": {exc.strerror}" if isinstance(exc, OSError) and exc.strerror else ""
            print_error(f"unexpected failure ({type(exc).__name__}{reason}); {PROGRAM} --traceback COMMAND shows where")
        sys.exit(_failed(exc))


@contextmanager
def checking() -> Iterator[None]:
    """Exit with UNFINISHED if this context, in which a command checks something, fails: FAILED is its answer.

    A log that was rolled back is an answer.
    """
    try:
        yield
    except (typer.Exit, RecordRolledBackError):
        raise
    except Exception as exc:
        exc.add_note(_NO_ANSWER)
        raise


def _failed(exc: Exception) -> int:
    return UNFINISHED if _NO_ANSWER in getattr(exc, "__notes__", ()) else FAILED
