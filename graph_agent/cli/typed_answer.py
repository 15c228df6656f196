"""The user's answer to a question: typed in a terminal below the question, or sent with the launch token.

A coding agent runs the same commands as its user. So no argument and no pipe answers a question, as no program without the
launch token answers one on the page.
"""

from __future__ import annotations

import hmac
import os
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from graph_agent.bootstrap.secret import launch_token
from graph_agent.cli.options import option
from graph_agent.cli.running import FAILED, print_stderr, read_text, wrong_usage
from graph_agent.policy.consent import Consent, read_consent
from graph_agent.reply.text import visible
from graph_agent.settings import Settings

TokenFile = Annotated[
    Path | None, option("--token-file", "FILE", "Answer without a terminal: FILE has the launch token of the page.")
]

PROMPT = "> "
_LINE = 4096
"""The longest line of a terminal."""


def has_launch_token(settings: Settings, file: Path | None) -> bool:
    """True if `file` has the launch token, as `graph-agent serve` writes it; another text is a usage error."""
    if file is None:
        return False
    token = launch_token(settings)
    given = read_text(file, _LINE).strip().removeprefix("Authorization: Bearer ")
    if not hmac.compare_digest(given.encode(), token.encode()):
        wrong_usage(f"{file} does not have the launch token")
    return True


def typed_answer(
    question: str,
    actions: Sequence[Sequence[str]] = (),
    *,
    elsewhere: str = "a question is answered by a person, in a terminal or on the page",
) -> bool | None:
    """Show a question on the controlling terminal and return the yes or no that is typed below it; None for another text.

    `actions` are the titles of its actions, as for `read_consent`. Without a terminal, exit with the usage error `elsewhere`,
    which says how the question can be answered.
    """
    try:
        # The terminal itself: standard input and output may be redirected to another program.
        terminal = os.open("/dev/tty", os.O_RDWR) if sys.stdin.isatty() else None
    except OSError:
        terminal = None
    if terminal is None:
        wrong_usage(elsewhere)
    with os.fdopen(terminal, "r+b", buffering=0) as tty:
        forget_typed(tty.fileno())
        tty.write(f"{visible(question)}\n{PROMPT}".encode())
        line = os.read(tty.fileno(), _LINE)
    answer = {Consent.YES: True, Consent.NO: False}
    return answer.get(read_consent(line.decode(errors="replace").strip(), actions))


def require_yes(settings: Settings, token_file: Path | None, question: str, *, elsewhere: str) -> None:
    """Ask a question that ends with a question mark, and return after a yes, which the launch token in `token_file` stands for.

    Exit after another answer, and without a terminal as `typed_answer`.
    """
    if has_launch_token(settings, token_file):
        return
    if typed_answer(f"{question} Please answer yes or no.", elsewhere=elsewhere) is not True:
        print_stderr("that is no yes: nothing was answered")
        raise typer.Exit(FAILED)


def forget_typed(terminal: int) -> None:
    """Discard what was typed before the question was shown: it does not answer it."""
    termios.tcflush(terminal, termios.TCIFLUSH)


def shows_questions() -> bool:
    """True if a person types below what this program prints."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return sys.stdin.isatty() and sys.stdout.isatty()
