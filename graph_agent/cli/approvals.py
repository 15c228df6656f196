"""`graph-agent approvals`: list, read, answer and withdraw the calls that wait for the approval of other people."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.approval_view import ApprovalSummary, ApprovalView, ShownAnswer
from graph_agent.chat.approvals import ApprovalService
from graph_agent.cli.options import AsJson, Roles, User, known_roles, option, with_files
from graph_agent.cli.running import Run, wrong_usage
from graph_agent.cli.runtime import open_command_runtime
from graph_agent.cli.show import json_line
from graph_agent.cli.typed_answer import TokenFile, require_yes
from graph_agent.errors import ConfigurationError
from graph_agent.models.approval import ApprovalState, ApproverIdentity
from graph_agent.models.canonical import canonical_json
from graph_agent.policy.approval_signature import NAMESPACE
from graph_agent.reply.text import visible
from graph_agent.settings import Settings

RequestId = Annotated[str, typer.Argument(metavar="ID", help="The id of the request.")]
Digest = Annotated[str | None, option("--digest", "DIGEST", "Answer only if the request has this digest.", "that of now")]
KeyFile = Annotated[Path | None, option("--key", "FILE", "Sign the answer with this SSH key.")]
Reason = Annotated[str, option("--reason", "TEXT", "State this reason, which the requester reads.")]
_PERSON = (
    "a request is answered by a person: in a terminal, on the page, or with --token-file FILE; a signature needs no terminal"
)
As = Annotated[str | None, option("--as", "ROLE", "Answer in this role.", "one that is needed")]


@with_files()
def list_approvals(
    user: User = LOCAL_USER,
    role: Roles = None,
    own: Annotated[bool, typer.Option("--own", help="List your own requests.")] = False,
    ended: Annotated[bool, typer.Option("--ended", help="List those of others that have ended.")] = False,
    as_json: AsJson = False,
    *,
    settings: Settings,
) -> None:
    """List the calls that wait for your approval.

    Without sign-in, --user and --role are believed, so that one person can try the rules.
    """
    roles = known_roles(settings.role_names, role)
    with open_command_runtime(settings, announce=False) as (runtime, run):
        requests = _requests(runtime)
        found = requests.of_requester(user) if own else (requests.ended if ended else requests.for_approver)(user, roles)
        for one in run(found):
            typer.echo(json_line(one.to_json()) if as_json else visible(_line(one)))


@with_files()
def show_approval(
    request_id: RequestId, user: User = LOCAL_USER, role: Roles = None, as_json: AsJson = False, *, settings: Settings
) -> None:
    """Print everything about a request, and what your approval would do now."""
    roles = known_roles(settings.role_names, role)
    with open_command_runtime(settings, announce=False) as (runtime, run):
        shown = run(_requests(runtime).view(request_id.lower(), user, roles))
        typer.echo(json_line(shown.to_json()) if as_json else text_of(shown))


@with_files()
def approve(
    request_id: RequestId,
    user: User = LOCAL_USER,
    role: Roles = None,
    as_role: As = None,
    digest: Digest = None,
    reason: Reason = "",
    key: KeyFile = None,
    token_file: TokenFile = None,
    *,
    settings: Settings,
) -> None:
    """Approve a call. If that is enough, it is made at once, and its result is printed.

    All of it is shown first, and you type yes or no below it. A signed answer, and one with --token-file, needs no terminal.
    """
    given = _Given(settings, user, known_roles(settings.role_names, role), as_role, digest, reason, key, token_file)
    _answer(given, request_id, approve=True)


@with_files()
def deny(
    request_id: RequestId,
    reason: Reason,
    user: User = LOCAL_USER,
    role: Roles = None,
    as_role: As = None,
    digest: Digest = None,
    key: KeyFile = None,
    token_file: TokenFile = None,
    *,
    settings: Settings,
) -> None:
    """Deny a call, which ends its request. The requester reads the reason. You are asked first, as by `approve`."""
    given = _Given(settings, user, known_roles(settings.role_names, role), as_role, digest, reason, key, token_file)
    _answer(given, request_id, approve=False)


@with_files()
def cancel(request_id: RequestId, user: User = LOCAL_USER, token_file: TokenFile = None, *, settings: Settings) -> None:
    """Withdraw a request of your own. You are asked first, as by `approve`."""
    with open_command_runtime(settings, announce=False) as (runtime, run):
        requests = _requests(runtime)
        if run(requests.state(request_id.lower(), user)).is_open:
            shown = run(requests.view(request_id.lower(), user, ()))
            require_yes(settings, token_file, f"{text_of(shown)}\nShould I withdraw it?", elsewhere=_PERSON)
        run(requests.cancel(request_id.lower(), user))
        _print_end(runtime, run, request_id, user, ())


@dataclass(frozen=True)
class _Given:
    """An answer as the command line gives it."""

    settings: Settings
    user: str
    roles: tuple[str, ...]
    as_role: str | None
    digest: str | None
    reason: str
    key: Path | None
    token_file: Path | None


def _answer(given: _Given, request_id: str, *, approve: bool) -> None:
    """Answer a request, after its person has signed the answer or typed a yes below all of it."""
    settings, key = given.settings, given.key
    if settings.authenticates and (key is None or settings.approver_keys is None):
        wrong_usage(
            "with sign-in an answer of the command line must be signed: give --key FILE, and put your key into the file of "
            "GRAPH_AGENT_APPROVER_KEYS; without a key, answer on the page or over HTTP"
        )
    with open_command_runtime(settings, announce=False) as (runtime, run):
        requests = _requests(runtime)
        shown = run(requests.view(request_id.lower(), given.user, given.roles))
        own = [] if shown.yours is None else shown.yours.roles
        chosen = given.as_role or (own[0] if own else None)
        signature = ""
        if key is not None and shown.yours is not None:
            texts = [one.text for one in shown.yours.to_sign if (one.role, one.approve) == (chosen, approve)]
            if not texts:
                wrong_usage("this installation asks for no signature: leave out --key")
            signature = _signed(texts[0], key)
        elif shown.yours is not None and not shown.yours.to_sign and shown.state is ApprovalState.OPEN:
            require_yes(settings, given.token_file, _question(shown, given.reason, approve=approve), elsewhere=_PERSON)
        answered = requests.answer(
            shown.id,
            given.user,
            given.roles,
            approve=approve,
            digest=given.digest or shown.digest,
            identity=ApproverIdentity.ASSERTED if key is None else ApproverIdentity.KEY,
            role=chosen,
            reason=given.reason,
            signature=signature,
        )
        if elsewhere := run(answered).decided_elsewhere:
            typer.echo(f"Stored. {elsewhere}")
        _print_end(runtime, run, request_id, given.user, given.roles)


def _question(shown: ApprovalView, reason: str, *, approve: bool) -> str:
    why = f" with the reason {canonical_json(reason)}" if reason else ""
    return f"This waits for your approval:\n{text_of(shown)}\nShould I {'approve' if approve else 'deny'} it{why}?"


def _print_end(runtime: Runtime, run: Run, request_id: str, user: str, roles: Sequence[str]) -> None:
    """Print the state of a request, after this process has closed it if that is possible."""
    requests = _requests(runtime)
    run(requests.closings())
    shown = run(requests.view(request_id.lower(), user, roles))
    typer.echo(f"{shown.state}: {visible(shown.description)}")
    record = None if shown.closing_decision is None else run(runtime.audit.load(shown.closing_decision))
    if record is not None and hasattr(record, "decision"):
        typer.echo(visible(record.decision.reply))


def _requests(runtime: Runtime) -> ApprovalService:
    if runtime.chat.approvals is None:
        raise ConfigurationError("this installation keeps no approval requests")
    return runtime.chat.approvals


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


def _line(one: ApprovalSummary) -> str:
    until = f"until {one.expires_at:%Y-%m-%d %H:%M} UTC" if one.state == "open" else f"{one.ended_at:%Y-%m-%d %H:%M} UTC"
    return f"{one.id}  {one.state}  {until}  {one.requester}: {one.brief}"


def text_of(shown: ApprovalView) -> str:
    """Return a request for a terminal: every value is complete, with hidden and bidirectional characters visible."""
    lines = [
        f"{shown.id}  {shown.state}, until {shown.expires_at:%Y-%m-%d %H:%M} UTC",
        f"{shown.requester}{', with a program,' if shown.by_program else ''} asks for: {shown.title} ({shown.tool})",
        *(line for name, value in shown.arguments.items() for line in _argument_lines(shown, name, value)),
        f"It acts on: {shown.object_then}",
        *([f"It acts now on: {shown.object_now}"] if shown.object_now not in (None, shown.object_then) else []),
        *(f"A server said then: {fact.in_words}" for fact in shown.facts),
        *([f"A server says now: {fact.in_words}" for fact in shown.facts_now or () if fact not in shown.facts]),
        *([f"Looked up at {shown.looked_at:%Y-%m-%d %H:%M:%S} UTC"] if shown.looked_at is not None else []),
        *([f"Before it: {canonical_json(shown.changed_before)}"] if shown.changed_before else []),
        *(f"Earlier message: {canonical_json(one)}" for one in shown.earlier_messages),
        f"Message: {canonical_json(shown.message)}",
        *(f"Call of that turn: {one.tool} {canonical_json(one.arguments)}: {one.became}" for one in shown.calls),
        f"Rules: {'; '.join(shown.rules)}",
        f"Roles: {', '.join(shown.roles)}",
        *map(_answer_line, shown.answers),
        *(f"Earlier request for the same: {one.id}, {one.state}" for one in shown.earlier),
        *([f"Your approval now: {shown.yours.effect} {shown.yours.why}"] if shown.yours and shown.yours.effect else []),
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
