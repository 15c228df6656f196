"""`graph-agent mandates from`: ask about a plan that does the changes of a decision again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.cli.last import decision_id_of
from graph_agent.cli.options import AsJson, Job, Model, Roles, User, asking_as, known_roles, with_rules
from graph_agent.cli.pending_action import type_answer
from graph_agent.cli.printed_answer import print_hints, print_reply
from graph_agent.cli.running import FAILED, wrong_usage
from graph_agent.cli.runtime import open_command_runtime, send_with_key
from graph_agent.cli.show import json_line
from graph_agent.cli.typed_answer import shows_questions
from graph_agent.errors import ConfigurationError
from graph_agent.models.base import located_violation
from graph_agent.models.mandate import DAY, MAX_MINUTES, MAX_RUNS, MAX_STANDING_MINUTES, PlanChoice
from graph_agent.settings import Settings


@with_rules()
def ask_about_plan(
    decision: Annotated[str, typer.Argument(help="Do again what this decision has done; `last` is the newest one.")],
    minutes: Annotated[int | None, typer.Option("--minutes", min=1, max=MAX_MINUTES, help="Agree for a shorter time.")] = None,
    job: Job = None,
    days: Annotated[
        int | None,
        typer.Option(
            "--days", min=1, max=MAX_STANDING_MINUTES // DAY, help="With --job: agree for so many days (default: 30)."
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option("--runs", min=1, max=MAX_RUNS, help="With --job: agree for so many runs (default: one for each day)."),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the plan as JSON, and ask nothing.")] = False,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Ask about the lines in this file, which permit less.")
    ] = None,
    as_json: AsJson = False,
    user: User = LOCAL_USER,
    role: Roles = None,
    model: Model = None,
    *,
    settings: Settings,
) -> None:
    """Ask about a plan that does the changes of a decision again.

    You are asked in the terminal, or later with `ask -c` or on the page. To permit less, print the plan with --show, edit it,
    and give it with --plan. With --job the plan stands: it covers the calls of `ask --job` with that name. Exits with 1 if no
    plan does anything of it again.
    """
    if days is not None and (job is None or minutes is not None):
        wrong_usage("--days is the time of a plan for a --job, in place of --minutes")
    if runs is not None and job is None:
        wrong_usage("--runs goes with --job")
    time = minutes if days is None else days * DAY
    choice, roles = _choice(plan, time, job or "", runs), known_roles(settings.role_names, role)
    with open_command_runtime(settings, model=model, announce=False) as (runtime, run):
        decision_id = decision_id_of(decision, runtime.database, run)
        if show:
            found = run(runtime.chat.mandates.repeatable(user, decision_id, choice.job)).proposed(choice)
            typer.echo(json_line(found.plan.to_json()))
            return
        answer = run(runtime.chat.again(user, decision_id, choice, roles=roles))
        pending = answer.decision.pending_action
        if pending is not None and not as_json and shows_questions():
            asked_in = answer.conversation_id
            answers = type_answer(run, runtime, user, asked_in, None)[1]
            answer = run(send_with_key(runtime.chat.send, user, None, conversation_id=asked_in, answers=answers, roles=roles))
        print_reply(answer, as_json=as_json)
        print_hints(answer, asking_as(user, roles), named=False, verbose=False)
        if pending is None:
            raise typer.Exit(FAILED)


def _choice(file: Path | None, minutes: int | None, job: str, runs: int | None) -> PlanChoice:
    """Return what the user has chosen of the plan: lines in a file, a time, and the job and the runs for which it stands."""
    if file is None:
        return PlanChoice(minutes=minutes, job=job, runs=runs)
    try:
        choice = PlanChoice.model_validate_json(file.read_bytes())
    except OSError as exc:
        raise ConfigurationError(f"{file} cannot be read: {exc.strerror}") from exc
    except ValidationError as exc:
        raise ConfigurationError(f"{file} is no plan: {located_violation(exc)}") from None
    return choice.replace(minutes=minutes or choice.minutes, job=job or choice.job, runs=runs or choice.runs)
