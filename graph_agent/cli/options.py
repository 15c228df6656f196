"""The options that several commands have, how options are declared, and what is built from them: settings and filters."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from graph_agent.audit.filters import DecisionFilter
from graph_agent.bootstrap import LOCAL_USER
from graph_agent.cli.running import wrong_usage
from graph_agent.models.mandate import JOB_NAME, JOB_NAME_RULE
from graph_agent.settings import Settings, read_settings


def option(
    flag: str, metavar: str | None, text: str, default: str | None = None, check: Callable[[Any], Any] | None = None
) -> Any:
    """Return a Typer option. `default` says in words what is used if the option is not given."""
    return typer.Option(flag, metavar=metavar, help=text, show_default=default or False, callback=check)


def not_blank(value: str | None) -> str | None:
    """Return an option's value. Raises a usage error that names the option if it is blank."""
    if value is not None and not value.strip():
        raise typer.BadParameter("must not be empty")
    return value


Model = Annotated[
    str | None, option("--model", "MODEL", "Use this model: embedded, embedded:FILE, gemini, openai or scripted:FILE.")
]
User = Annotated[str, option("--user", "ID", "Act as this user.", "the local user", not_blank)]
Conversation = Annotated[
    str | None, option("--conversation", "ID", "Continue this conversation, or the `last` one (default: a new one).")
]


def _job_name(value: str | None) -> str | None:
    """Return the name of a job. Raises a usage error for one that cannot be."""
    if value is not None and not JOB_NAME.fullmatch(value):
        raise typer.BadParameter(JOB_NAME_RULE)
    return value


Job = Annotated[str | None, option("--job", "NAME", "For the runs of this job, which has standing plans.", check=_job_name)]
Mcp = Annotated[Path | None, option("--mcp", "FILE", "Use the MCP servers that this file lists.", "the task server")]
ConstitutionFile = Annotated[Path | None, option("--constitution", "FILE", "Use this constitution.", "the shipped one")]
Roles = Annotated[list[str] | None, option("--role", "ROLE", "Act with this role, which conditions can name; may be repeated.")]
ConditionsFile = Annotated[Path | None, option("--conditions", "FILE", "Use these conditions in Cedar.", "none")]
NoToken = Annotated[
    bool, typer.Option("--no-token", help="Require no launch token: for a container, where no other account reaches the port.")
]
Reason = Annotated[
    str, option("--reason", "TEXT", "State this reason in the log, for ever: name no person in it.", check=not_blank)
]
OperatorReason = Annotated[str, option("--reason", "TEXT", "Keep this reason. Users do not read it.", check=not_blank)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def replace_parameter(
    name: str, make: Callable[..., Any], options: Collection[Parameter] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a command: on the command line its parameter `name` is replaced by `options`.

    They are the parameters of `make`, unless others are given. The command gets what `make` returns for their values.
    """
    chosen = options or signature(make, eval_str=True).parameters.values()
    added = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in chosen]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**arguments: Any) -> None:
            made = make(**{one.name: arguments.pop(one.name) for one in added})
            command(**{name: made}, **arguments)

        parameters: list[Parameter] = []
        for parameter in signature(command, eval_str=True).parameters.values():
            parameters += added if parameter.name == name else [parameter]
        # Typer reads the options from the signature. Without one of its own it would get that of the wrapped command.
        vars(run)["__signature__"] = Signature(parameters)
        return run

    return decorate


def known_roles(known: Collection[str], roles: list[str] | None) -> tuple[str, ...]:
    """Return the roles of `--role`. One that is not among the `known` ones, which conditions can name, is a usage error."""
    for role in roles or ():
        if role not in known:
            # Imported here, because only an error needs it.
            from graph_agent.policy.cedar.conditions import configured_roles

            wrong_usage(f"there is no role '{role}': {configured_roles(known, role)}")
    return tuple(roles or ())


def asking_as(user: str, roles: Sequence[str] = ()) -> list[str]:
    """Return the options by which another command asks as this user with these roles."""
    return [*([] if user == LOCAL_USER else ["--user", user]), *(part for role in roles for part in ("--role", role))]


def with_files(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a command with a parameter `settings`.

    On the command line the parameter is replaced by the options for `names`, by default --mcp, --constitution and
    --conditions; the command gets the settings with the files that they name.
    """
    options = signature(command_settings, eval_str=True).parameters
    return replace_parameter("settings", command_settings, [options[name] for name in names])


def command_settings(mcp: Mcp = None, constitution: ConstitutionFile = None, conditions: ConditionsFile = None) -> Settings:
    """Return the settings of this process, with the files that the options --mcp, --constitution and --conditions name."""
    given = {"mcp": mcp, "constitution": constitution, "conditions": conditions}
    return read_settings().model_copy(update={name: path for name, path in given.items() if path is not None})


def with_rules() -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator like `with_files` for a command that decides: its settings have the activated rules."""
    return replace_parameter("settings", rule_settings)


def rule_settings(mcp: Mcp = None, constitution: ConstitutionFile = None, conditions: ConditionsFile = None) -> Settings:
    """Return the settings of a command that decides. Rules of its own are a usage error while others are activated."""
    # Imported here, because it opens the database, which help does without.
    from graph_agent.bootstrap.rule_settings import DatabaseRules
    from graph_agent.bootstrap.rules_source import read_settings_in_force

    found = read_settings_in_force(command_settings(mcp, constitution, conditions))
    if isinstance(found, DatabaseRules) and (constitution or conditions):
        wrong_usage(
            f"rules {found.number} are activated in this database, so files of rules have no effect: `graph-agent rules "
            "activate` puts others in force, and DATABASE_URL=sqlite:///try.db tries them in a database of their own"
        )
    return found


_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,5})([mhdw])")

_OPTIONS: Mapping[str, tuple[str, str | None, str]] = {
    "decision_id": ("--id", "DECISION_ID", "Select only this decision: an id, or `last`."),
    "user_id": ("--user", "ID", "Select decisions of this user."),
    "conversation_id": ("--conversation", "ID", "Select decisions of this conversation: an id, or `last`."),
    "since": ("--since", "TIME", "Select from this time on: ISO 8601, or an age such as 30m, 24h, 7d."),
    "until": ("--until", "TIME", "Select before this time."),
    "decision_type": ("--type", "TYPE", "Select this decision type."),
    "outcome": ("--outcome", "OUTCOME", "Select this outcome, or a prefix of it: ERROR."),
    "intent_type": ("--intent", "INTENT", "Select this intent."),
    "status": ("--status", "STATUS", "Select this status: PENDING, completed or interrupted."),
    "model": ("--by-model", "NAME", "Select decisions for which this model was requested."),
    "response_model": ("--response-model", "NAME", "Select decisions that this model answered."),
    "search": ("--search", "WORDS", "Select decisions with these words in the message, the reply or the arguments."),
    "refused": ("--refused", None, "Select decisions with a tool call that code refused."),
}
"""Field of `DecisionFilter` -> the option that sets it: flag, metavar (None for an option without a value) and help."""


def filter_by(*fields: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a command with a parameter `filters`.

    On the command line the parameter is replaced by the options for `fields`, by default all but the id; the command gets the
    `DecisionFilter` that they build. Invalid values raise `ServiceError` VALIDATION_ERROR.
    """
    chosen = fields or tuple(field for field in _OPTIONS if field != "decision_id")
    return replace_parameter("filters", _filter, [_option(field) for field in chosen])


def _option(field: str) -> Parameter:
    flag, metavar, text = _OPTIONS[field]
    kind: Any = bool if metavar is None else str
    # The prefix keeps the names apart from the other parameters of a command, such as `model`.
    annotation: Any = Annotated[kind | None, option(flag, metavar, text)]
    return Parameter(f"by_{field}", Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _filter(**values: Any) -> DecisionFilter:
    given = {name.removeprefix("by_"): value for name, value in values.items() if value is not None}
    if named := [field for field in ("decision_id", "conversation_id") if given.get(field) == "last"]:
        # Imported here, because it opens the database, which most commands with these options need later and some never.
        from graph_agent.cli.last import last_ids

        ids = last_ids()
        given.update((field, ids[field]) for field in named)
    for field in given.keys() & {"since", "until"}:
        given[field] = parse_time(given[field])
    return DecisionFilter.of(**given)


def parse_time(text: str) -> datetime:
    """Parse a point in time; without a time zone it is UTC."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError:
        wrong_usage(f"'{text}' is not a time: write 2026-01-31, 2026-01-31T12:00:00Z, or an age: 30m, 24h, 7d")
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
