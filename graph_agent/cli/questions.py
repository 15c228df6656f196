"""`graph-agent questions show`, `answer` and `cancel`: a question for a yes of your own, or for your approval."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.question_view import ApprovalView, QuestionSummary, ShownAnswer
from graph_agent.chat.questions import GivenAnswer, Person
from graph_agent.cli.aligned import reply_of
from graph_agent.cli.options import AsJson, Model, Roles, User, asking_as, known_roles, option, with_rules
from graph_agent.cli.other_rules import print_other_rules
from graph_agent.cli.pending_action import typed_for
from graph_agent.cli.printed_answer import failed, print_hints, print_reason, print_reply
from graph_agent.cli.running import FAILED, Run, print_stderr, wrong_usage
from graph_agent.cli.runtime import open_command_runtime, send_with_key
from graph_agent.cli.show import json_line, whole_action
from graph_agent.cli.shown_conversation import ShownConversation, remember
from graph_agent.cli.typed_answer import TokenFile, has_launch_token, require_yes
from graph_agent.errors import ConfigurationError
from graph_agent.models.approval import ApproverIdentity
from graph_agent.models.canonical import canonical_json
from graph_agent.models.record import DecisionRecord
from graph_agent.policy.approval_signature import NAMESPACE
from graph_agent.question.tables import QuestionState
from graph_agent.reply.text import visible
from graph_agent.settings import Settings

QuestionId = Annotated[str, typer.Argument(metavar="ID", help="The id of the question.")]
Digest = Annotated[str | None, option("--digest", "DIGEST", "Answer only if the question has this digest.", "that of now")]
KeyFile = Annotated[Path | None, option("--key", "FILE", "Sign the answer with this SSH key.")]
Reason = Annotated[str, option("--reason", "TEXT", "State this reason, which the requester reads; to deny needs one.")]
As = Annotated[str | None, option("--as", "ROLE", "Approve or deny in this role.", "one that is needed")]
_PERSON = (
    "a question is answered by a person: in a terminal, on the page, or with --token-file FILE; a signature needs no terminal"
)


@with_rules()
def show_question(
    question_id: QuestionId, user: User = LOCAL_USER, role: Roles = None, as_json: AsJson = False, *, settings: Settings
) -> None:
    """Print everything about a question, and what your approval would do now or, after its end, what came of it."""
    person = Person(user, known_roles(settings.role_names, role))
    with open_command_runtime(settings, announce=False) as (runtime, run):
        shown = run(runtime.chat.questions.view(question_id.lower(), person))
        typer.echo(json_line(shown.to_json()) if as_json else text_of(shown))
        if not as_json and (reply := _closing_reply(runtime, run, shown)) is not None:
            typer.echo(f"Outcome: {reply}")


@with_rules()
def answer(
    question_id: QuestionId,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm or approve what it asks.")] = False,
    no: Annotated[bool, typer.Option("--no", help="Decline or deny it, which ends it.")] = False,
    user: User = LOCAL_USER,
    role: Roles = None,
    as_role: As = None,
    digest: Digest = None,
    reason: Reason = "",
    key: KeyFile = None,
    token_file: TokenFile = None,
    model: Model = None,
    as_json: AsJson = False,
    *,
    settings: Settings,
) -> None:
    """Answer a question, and print what came of it. What is confirmed, or approved by enough people, is done at once.

    In a terminal all of it is shown first, and what you type below it counts. Without a terminal, give --yes or --no, and
    --token-file FILE or, to approve or deny with a signature, --key FILE.
    """
    if yes and no:
        wrong_usage("a question has one answer: give --yes or --no")
    if not (yes or no) and token_file is not None:
        wrong_usage("with --token-file the answer is --yes or --no")
    person = Person(user, known_roles(settings.role_names, role))
    given = _Given(settings, not no, digest, reason, as_role, key, token_file, as_json)
    with open_command_runtime(settings, model=model, announce=False) as (runtime, run):
        shown = run(runtime.chat.questions.view(question_id.lower(), person))
        if isinstance(shown, ApprovalView):
            _approve(runtime, run, person, shown, given)
        else:
            _confirm(runtime, run, person, shown, given)


@with_rules()
def cancel(question_id: QuestionId, user: User = LOCAL_USER, token_file: TokenFile = None, *, settings: Settings) -> None:
    """Withdraw a question about a call of your own. You are asked first, as by `answer`."""
    person = Person(user)
    with open_command_runtime(settings, announce=False) as (runtime, run):
        shown = run(runtime.chat.questions.view(question_id.lower(), person))
        if shown.state is QuestionState.OPEN and shown.requester == user:
            require_yes(settings, token_file, f"{text_of(shown)}\nShould I withdraw it?", elsewhere=_PERSON)
        run(runtime.chat.questions.cancel(shown.id, person))
        _print_end(runtime, run, shown.id, person)


@dataclass(frozen=True)
class _Given:
    """An answer as the command line gives it."""

    settings: Settings
    yes: bool
    digest: str | None
    reason: str
    as_role: str | None
    key: Path | None
    token_file: Path | None
    as_json: bool


def _confirm(runtime: Runtime, run: Run, person: Person, shown: QuestionSummary, given: _Given) -> None:
    """Answer a question to the user, after the user has typed the answer below it, and print the reply of its turn."""
    card = shown.card
    assert card is not None
    yes, digest = given.yes, given.digest
    if not has_launch_token(given.settings, given.token_file):
        if shown.state is QuestionState.OPEN:
            yes, digest = typed_for(run, runtime, card), digest or shown.digest
    elif card.by_id_only and digest is None:
        wrong_usage("the question does not show all of it: read it by `questions show`, and give the --digest that it prints")
    answer = GivenAnswer(yes=yes, digest=digest or shown.digest)
    answered = run(send_with_key(runtime.chat.questions.answer, shown.id, person, answer))
    reply = answered.reply
    assert reply is not None
    print_reply(reply, as_json=given.as_json)
    pending = reply.decision.pending_action
    if shown.conversation_title:
        # Without one a graph has asked, and there is no chat to go on with.
        last = ShownConversation(user_id=person.user_id, conversation_id=reply.conversation_id, pending=pending)
        remember(given.settings, last)
    whose = asking_as(person.user_id, person.roles)
    print_hints(reply, whose, named=False, verbose=False)
    print_other_rules(runtime, run, person.user_id, reply, whose)
    if failed(reply.decision):
        print_reason(run(runtime.audit.load(reply.decision_id)))
        raise typer.Exit(FAILED)


def _approve(runtime: Runtime, run: Run, person: Person, shown: ApprovalView, given: _Given) -> None:
    """Answer a question to others, after its person has signed the answer or typed a yes below all of it."""
    settings, key = given.settings, given.key
    if settings.authenticates and (key is None or settings.approver_keys is None):
        wrong_usage(
            "with sign-in an answer of the command line must be signed: give --key FILE, and put your key into the file of "
            "GRAPH_AGENT_APPROVER_KEYS; without a key, answer on the page or over HTTP"
        )
    own = [] if shown.yours is None else shown.yours.roles
    chosen = given.as_role or (own[0] if own else None)
    signature = ""
    if key is not None and shown.yours is not None:
        texts = [one.text for one in shown.yours.to_sign if (one.role, one.approve) == (chosen, given.yes)]
        if not texts:
            wrong_usage("this installation asks for no signature: leave out --key")
        signature = _signed(texts[0], key)
    elif shown.yours is not None and not shown.yours.to_sign and shown.state is QuestionState.OPEN:
        require_yes(settings, given.token_file, _question(shown, given), elsewhere=_PERSON)
    answer = GivenAnswer(
        yes=given.yes,
        digest=given.digest or shown.digest,
        identity=ApproverIdentity.ASSERTED if key is None else ApproverIdentity.KEY,
        role=chosen,
        reason=given.reason,
        signature=signature,
    )
    answered = run(runtime.chat.questions.answer(shown.id, person, answer)).question
    if answered.decided_elsewhere:
        print_stderr(f"Stored. {answered.decided_elsewhere}")
    _print_end(runtime, run, shown.id, person)


def _question(shown: ApprovalView, given: _Given) -> str:
    why = f" with the reason {canonical_json(given.reason)}" if given.reason else ""
    return f"This waits for your approval:\n{text_of(shown)}\nShould I {'approve' if given.yes else 'deny'} it{why}?"


def _print_end(runtime: Runtime, run: Run, question_id: str, person: Person) -> None:
    """Print the state of a question, after this process has closed it if that is possible."""
    if runtime.chat.approvals is not None:
        run(runtime.chat.approvals.closings())
    shown = run(runtime.chat.questions.view(question_id, person))
    typer.echo(f"{shown.state}: {visible(shown.description)}")
    if (reply := _closing_reply(runtime, run, shown)) is not None:
        typer.echo(reply)


def _closing_reply(runtime: Runtime, run: Run, shown: QuestionSummary) -> str | None:
    """Return the reply of the decision that has closed a question; None if it waits, or if nothing had to be said."""
    record = None if shown.closing_decision is None else run(runtime.audit.load(shown.closing_decision))
    return visible(reply_of(record.decision)) if isinstance(record, DecisionRecord) else None


def _signed(text: str, key: Path) -> str:
    """Return the signature of `ssh-keygen`, which may ask for a passphrase or a touch. Raises `ConfigurationError`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "approval"
        file.write_text(text, encoding="utf-8")
        try:
            made = subprocess.run(
                ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(file)], check=False, stdout=2
            )
        except OSError:
            raise ConfigurationError("ssh-keygen is needed to sign an answer") from None
        if made.returncode != 0:
            raise ConfigurationError(f"ssh-keygen could not sign with the key {key}")
        return file.with_suffix(".sig").read_text(encoding="utf-8")


def text_of(shown: QuestionSummary) -> str:
    """Return a question for a terminal: every value is complete, with hidden and bidirectional characters visible."""
    return _approval_text(shown) if isinstance(shown, ApprovalView) else _card_text(shown)


def _card_text(shown: QuestionSummary) -> str:
    assert shown.card is not None
    return "\n".join(
        (
            visible(f"{shown.id}  {shown.state}, until {shown.expires_at:%Y-%m-%d %H:%M} UTC"),
            whole_action(shown.card),
            f"Digest: {shown.digest}",
        )
    )


def _approval_text(shown: ApprovalView) -> str:
    lines = [
        f"{shown.id}  {shown.state}, until {shown.expires_at:%Y-%m-%d %H:%M} UTC",
        f"{shown.requester}{', with a program,' if shown.by_program else ''} asks for: {shown.title} ({shown.tool})",
        *(line for name, value in shown.arguments.items() for line in _argument_lines(shown, name, value)),
        f"It acts on: {shown.object_then}",
        *([f"It acts now on: {shown.object_now}"] if shown.object_now not in (None, shown.object_then) else []),
        *(f"A server said then: {fact.in_words}" for fact in shown.facts),
        *([f"A server says now: {fact.in_words}" for fact in shown.facts_now or () if fact not in shown.facts]),
        *([f"Looked up at {shown.looked_at:%Y-%m-%d %H:%M:%S} UTC"] if shown.looked_at is not None else []),
        *(f"Before it: {canonical_json(one)}" for one in shown.changed_since),
        *([f"Before it: {canonical_json(shown.changed_before)}"] if shown.changed_before else []),
        *(f"Earlier message: {canonical_json(one)}" for one in shown.earlier_messages),
        f"Message: {canonical_json(shown.message)}",
        *(f"Call of that turn: {one.tool} {canonical_json(one.arguments)}: {one.became}" for one in shown.calls),
        f"Rules: {'; '.join(shown.rules)}",
        f"Roles: {', '.join(shown.roles)}",
        *map(_answer_line, shown.answers),
        *(f"Earlier request for the same: {one.id}, {one.state}" for one in shown.earlier),
        *([shown.yours.effect_words] if shown.yours and shown.yours.effect_words else []),
        *([shown.decided_elsewhere] if shown.decided_elsewhere else []),
        f"Digest: {shown.digest}",
    ]
    return "\n".join(visible(line).rstrip() for line in lines)


def _answer_line(one: ShownAnswer) -> str:
    reason = f": {canonical_json(one.reason)}" if one.reason else ""
    return f"{'Approved' if one.approve else 'Denied'} by {one.approver} as {one.role} ({one.identity}){reason}"


def _argument_lines(shown: ApprovalView, name: str, value: Any) -> list[str]:
    place = "" if shown.named_in_message.get(name) else "  (not in the message)"
    origin = shown.origins.get(name)
    return [f"  {name} = {canonical_json(value)}{place}", *([] if origin is None else [f"    {origin}"])]
