"""Failures of a process of the command line: each becomes one sentence on stderr and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from graph_agent.cli.log_lines import without_credentials
from graph_agent.cli.running import FAILED, INTERRUPTED, WRONG_USAGE, exit_code, print_error, print_stderr
from graph_agent.errors import GraphAgentError

PROGRAM = "graph-agent"

# Typer exports only this subclass of it.
_UsageError: Any = typer.BadParameter.__base__
"""The error about an option or an argument, if Typer does not print it itself."""


@contextmanager
def report_failures(*, show_traceback: bool = False) -> Iterator[None]:
    """Print an exception of this context as one sentence, or with its traceback, and exit."""
    try:
        yield
    except GraphAgentError as exc:
        print_error(getattr(exc, "message", None) or str(exc))
        sys.exit(exit_code(exc))
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
            print_stderr(without_credentials(traceback.format_exc()), "error")
        else:
            print_error(f"unexpected failure ({type(exc).__name__}); {PROGRAM} --traceback COMMAND shows where")
        sys.exit(FAILED)
