"""`graph-agent undo`: undo what a decision has done, after a yes."""

from __future__ import annotations

from typing import Annotated

import typer

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.cli.last import decision_id_of
from graph_agent.cli.options import AsJson, Roles, User, asking_as, known_roles, with_rules
from graph_agent.cli.pending_action import type_answer
from graph_agent.cli.printed_answer import print_hints, print_reply
from graph_agent.cli.running import FAILED, wrong_usage
from graph_agent.cli.runtime import open_command_runtime, send_with_key
from graph_agent.cli.typed_answer import TokenFile, has_launch_token, shows_questions
from graph_agent.models.decision import ConfirmationAnswer
from graph_agent.settings import Settings


@with_rules()
def undo(
    decision: Annotated[str, typer.Argument(help="Undo what this decision has done; `last` is the newest one.")],
    as_json: AsJson = False,
    user: User = LOCAL_USER,
    role: Roles = None,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm it without a terminal; needs --token-file.")] = False,
    token_file: TokenFile = None,
    *,
    settings: Settings,
) -> None:
    """Undo what a decision has done, as far as its tools can.

    You are asked first: in the terminal, or later with `ask -c` or on the page. Exits with 1 if nothing can be undone.
    """
    if yes and not has_launch_token(settings, token_file):
        wrong_usage("--yes needs the launch token: --token-file FILE; without both you are asked in the terminal")
    roles = known_roles(settings.role_names, role)
    with open_command_runtime(settings, announce=False) as (runtime, run):
        asking = runtime.chat.undo(user, decision_id_of(decision, runtime.database, run), roles=roles)
        answer = run(asking)
        pending = answer.decision.pending_action
        if pending is not None and not as_json and (yes or shows_questions()):
            given = ConfirmationAnswer(pending_action=pending.id, yes=True, read=pending.whole_digest)
            answers = given if yes else type_answer(run, runtime, user, answer.conversation_id, None)[1]
            asked_in = answer.conversation_id
            answer = run(send_with_key(runtime.chat.send, user, None, conversation_id=asked_in, answers=answers, roles=roles))
        print_reply(answer, as_json=as_json)
        print_hints(answer, asking_as(user, roles), named=False, verbose=False)
        decided = answer.decision
        if decided.pending_action is None and decided.approval is None and not decided.effects:
            raise typer.Exit(FAILED)
