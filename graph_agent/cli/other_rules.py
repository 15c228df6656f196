"""The message about an answer that was not followed, because its question was asked under other rules than those here."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.answer import ChatAnswer
from graph_agent.cli.running import PROGRAM, Run, print_stderr
from graph_agent.models.decision import AnswerState
from graph_agent.models.record import DecisionRecord, EntryKind
from graph_agent.settings import Settings

_OPTIONS = {"mcp": "servers file", "constitution": "constitution", "conditions": "conditions file"}
"""The options that name files, each with its noun; of the MCP servers only the definition of the tool counts."""
_WITH_CONDITIONS = " (or GRAPH_AGENT_ROLES or GRAPH_AGENT_TIME_ZONE)"
"""The settings that the digest of conditions covers too."""


def print_other_rules(runtime: Runtime, run: Run, user: str, answer: ChatAnswer, whose: Sequence[str] = ()) -> None:
    """Print which rules differ, and the command that answers the question; nothing if the answer was followed.

    `whose` are the options of the command that say who asks.
    """
    if answer.decision.void_answer is not AnswerState.OTHER_RULES:
        return
    record = run(runtime.audit.load(answer.decision_id))
    assert isinstance(record, DecisionRecord)
    pending = record.header.context.pending_confirmation
    assert pending is not None
    differing = next(entry.result for entry in record.entries if entry.kind is EntryKind.RULES)
    asked = run(runtime.chat.files_of_question(pending.id, user)) or {}
    here = runtime.settings.rule_files
    for line in _differences(differing, asked, here):
        print_stderr(line)
    print_stderr(
        f"the question waits until {pending.expires_at.isoformat(timespec='seconds')}; to answer it there: "
        + _command(asked, here, [pending.id, *whose])
        if any(asked.get(name) != here.get(name) for name in _OPTIONS)
        else "what has changed is no longer there to answer it: ask again"
    )


def _differences(differing: Sequence[str], asked: Mapping[str, str], here: Mapping[str, str]) -> Iterator[str]:
    for name in differing:
        if name not in _OPTIONS:
            yield f"the tool '{name}' is defined otherwise than when the question was asked"
        elif asked.get(name) == here.get(name):
            more = _WITH_CONDITIONS if name == "conditions" else ""
            yield f"the {_OPTIONS[name]} {here.get(name, 'that is shipped')}{more} has changed since the question was asked"
        else:
            yield f"the {_OPTIONS[name]} differs: asked with {_named(asked, name)}, answered with {_named(here, name)}"


def _named(files: Mapping[str, str], name: str) -> str:
    return files.get(name) or ("none" if name == "conditions" else "the shipped one")


def _command(asked: Mapping[str, str], here: Mapping[str, str], answer: Sequence[str]) -> str:
    """Return the whole command that answers the question with the files with which it was asked."""
    variables = {name: str(Settings.model_fields[name].alias) for name in _OPTIONS}
    # No option says that there is no file.
    unset = [part for name in _OPTIONS if name not in asked and name in here for part in ("-u", variables[name])]
    files = [part for name in _OPTIONS if name in asked for part in (f"--{name}", asked[name])]
    return shlex.join([*(["env", *unset] if unset else []), PROGRAM, "questions", "answer", *answer, *files])
