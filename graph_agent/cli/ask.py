"""`graph-agent ask`: one message in, one decision out; or many, each in an empty world of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from graph_agent.cli.running import DONE, FAILED, AsJson, Conversation, Model, Run, User, opened_runtime, tell, wrong_usage
from graph_agent.cli.show import answer_object, json_line, out, print_answer
from graph_agent.errors import GraphAgentError, ServiceError, ServiceErrorCode

if TYPE_CHECKING:
    from graph_agent.bootstrap import Runtime
    from graph_agent.models.decision import AgentDecision

_FAILURES = ("ERROR:", "REFUSAL:RATE_LIMITED")


def ask(
    text: Annotated[str | None, typer.Argument(help="The message; - reads it from stdin.", show_default=False)] = None,
    as_json: AsJson = False,
    batch: Annotated[
        str | None,
        typer.Option(
            "--batch",
            metavar="FILE",
            help="One message a line (- is stdin), one JSON line out, each in a fresh empty world.",
            show_default=False,
        ),
    ] = None,
    user: User = None,
    conversation: Conversation = None,
    model: Model = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0.1, max=3600, help="How long a turn may take.")
    ] = None,
) -> None:
    """Send one message and print the reply, with a receipt for everything that was done.

    Ends with 1 if the message could not be served. To answer a question that the reply asks, send the answer with
    --conversation ID; the id is told on stderr.
    """
    if batch is not None:
        if text is not None or conversation is not None or user is not None:
            wrong_usage("--batch reads its messages from a file and knows no users: leave out TEXT, --user and --conversation")
        _ask_many(batch, model, timeout)
    elif text is None:
        wrong_usage("say something: graph-agent ask TEXT")
    else:
        _ask_one(_from_stdin() if text == "-" else text, as_json, user, conversation, model, timeout)


def _ask_one(
    text: str, as_json: bool, user: str | None, conversation: str | None, model: str | None, timeout: float | None
) -> None:
    with opened_runtime(model=model, timeout=timeout) as (runtime, run):
        from graph_agent.bootstrap import LOCAL_USER

        try:
            answer = run(runtime.chat.send(LOCAL_USER if user is None else user, text, conversation_id=conversation))
        except ServiceError as exc:
            if as_json:
                typer.echo(json_line(_error(exc)))
            raise
        if as_json:
            typer.echo(json_line(answer_object(answer)))
        else:
            print_answer(out(), answer.decision)
        tell(f"conversation: {answer.conversation_id}")
    raise typer.Exit(FAILED if failed(answer.decision) else DONE)


def failed(decision: AgentDecision) -> bool:
    """Whether the message could not be served; a refusal out of scope is an answer."""
    return (decision.outcome_category or "").startswith(_FAILURES)


def _ask_many(file: str, model: str | None, timeout: float | None) -> None:
    with ExitStack() as stack:
        lines = sys.stdin.buffer if file == "-" else stack.enter_context(_readable(file))
        runtime, run = stack.enter_context(opened_runtime(model=model, timeout=timeout, temporary=True))
        wrong = 0
        for number, text in enumerate(_texts(lines), start=1):
            result = _ask_apart(runtime, run, number, text)
            wrong += "error" in result
            typer.echo(json_line(result))  # flushes
        if wrong:
            tell(f"{wrong} of {number} lines could not be served")


def _ask_apart(runtime: Runtime, run: Run[Any], number: int, text: str | None) -> dict[str, Any]:
    """One line in its own world: a user and a conversation that nobody had before."""
    try:
        if text is None:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "The line is not UTF-8 text.")
        return answer_object(run(runtime.chat.send(f"line-{number}", text)))
    except GraphAgentError as exc:
        return {**_error(exc), "line": number}


def _error(exc: GraphAgentError) -> dict[str, Any]:
    if isinstance(exc, ServiceError):
        return {"error": {"code": exc.code.value, "message": exc.message}}
    return {"error": {"code": ServiceErrorCode.SERVICE_UNAVAILABLE.value, "message": "The request cannot be served right now."}}


def _texts(lines: BinaryIO) -> Iterator[str | None]:
    """The lines without their ends, as they come; None for one that is not UTF-8."""
    for raw in lines:
        try:
            yield raw.rstrip(b"\r\n").decode().removeprefix("\ufeff")
        except UnicodeDecodeError:
            yield None


def _readable(file: str) -> BinaryIO:
    try:
        return Path(file).open("rb")
    except OSError as exc:
        wrong_usage(f"{file} cannot be read: {exc.strerror}")


def _from_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode().rstrip("\r\n")
    except UnicodeDecodeError:
        wrong_usage("what stands on stdin is not UTF-8 text")
