"""`graph-agent questions list`: what waits for a person. It reads the database alone."""

from __future__ import annotations

from typing import Annotated

import typer

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.secret import record_keys
from graph_agent.bootstrap.stores import open_stores
from graph_agent.chat.conversations.question_store import QuestionStore
from graph_agent.chat.listed_question import ListedQuestion, listed
from graph_agent.chat.page_keys import key_of, next_after
from graph_agent.cli.options import AsJson, Roles, User, known_roles, option
from graph_agent.cli.running import open_in_loop, print_stderr, wrong_usage
from graph_agent.cli.show import json_line
from graph_agent.question.inbox import Which
from graph_agent.question.tables import Asks, QuestionState
from graph_agent.question.transitions import Questions
from graph_agent.reply.text import visible
from graph_agent.settings import read_settings


def list_questions(
    user: User = LOCAL_USER,
    role: Roles = None,
    own: Annotated[bool, typer.Option("--own", help="List those that ask others about your calls, also ended ones.")] = False,
    ended: Annotated[bool, typer.Option("--ended", help="List those that asked you and have ended.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="List at most this many.")] = 50,
    before: Annotated[
        str | None, option("--before", "NEXT", "Continue the list after a page: it printed NEXT on stderr.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the questions that wait for your answer: your own for a yes, and calls of others for your approval.

    Without sign-in, --user and --role are believed, so that one person can try the rules.
    """
    if own and ended:
        wrong_usage("--own and --ended are two lists: give one of them")
    settings = read_settings()
    which = Which.OWN if own else Which.ENDED if ended else Which.FOR_ME
    after = None if before is None else key_of(before)
    with open_in_loop(open_stores(settings)) as (stores, run):
        if role:
            # Imported here, because activated rules load the client of the tool servers, and only they may have other roles.
            from graph_agent.bootstrap.rules_source import settings_in_force

            settings = run(settings_in_force(settings, stores.database))
        roles = known_roles(settings.role_names, role)
        questions = QuestionStore(stores.database, Questions(stores.database, record_key=record_keys(settings)))
        page, titles, _ = run(questions.page(which, user, roles, after, limit))
    for one in page.questions:
        shown = listed(one, titles.get(one.conversation_id, ""))
        typer.echo(json_line(shown.to_json()) if as_json else visible(_line(shown)))
    if page.next is not None:
        print_stderr(f"there are more: --before {next_after(*page.next)}")


def _line(one: ListedQuestion) -> str:
    """Return a question on one line: its id, state, time and kind, then whose call it is about."""
    time = one.expires_at if one.state is QuestionState.OPEN else one.ended_at or one.expires_at
    until = "until " if one.state is QuestionState.OPEN else ""
    kind = "yes" if one.asks is Asks.REQUESTER else "approval"
    return f"{one.id}  {one.state}  {until}{time:%Y-%m-%d %H:%M} UTC  {kind}  {one.requester}: {one.brief}"
