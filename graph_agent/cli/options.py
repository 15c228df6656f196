"""The options that several commands have, and how options are declared."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from graph_agent.cli.running import wrong_usage


def option(
    flag: str, metavar: str | None, text: str, default: str | None = None, check: Callable[[Any], Any] | None = None
) -> Any:
    """Return a Typer option. `default` says in words what is used if the option is not given."""
    return typer.Option(flag, metavar=metavar, help=text, show_default=default or False, callback=check)


def not_blank(value: str) -> str:
    """Return an option's value. Raises a usage error that names the option if it is blank."""
    if not value.strip():
        raise typer.BadParameter("must not be empty")
    return value


Model = Annotated[str | None, option("--model", "MODEL", "Use this model: rules, gemini, openai or scripted:FILE.")]
User = Annotated[str, option("--user", "ID", "Act as this user.", "the local user", not_blank)]
Conversation = Annotated[str | None, option("--conversation", "ID", "Continue this conversation (default: a new one).")]
Mcp = Annotated[Path | None, option("--mcp", "FILE", "Use the MCP servers that this file lists.", "the task server")]
ConstitutionFile = Annotated[Path | None, option("--constitution", "FILE", "Use this constitution.", "the shipped one")]
Roles = Annotated[list[str] | None, option("--role", "ROLE", "Act with this role, which rules can name; may be repeated.")]
PolicyFile = Annotated[Path | None, option("--policy", "FILE", "Use these conditions in Cedar.", "none")]
NoToken = Annotated[
    bool, typer.Option("--no-token", help="Require no launch token: for a container, where no other account reaches the port.")
]
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
    """Return the roles of `--role`. One that is not among the `known` ones, which rules can name, is a usage error."""
    for role in roles or ():
        if role not in known:
            # Imported here, because only an error needs it.
            from graph_agent.policy.cedar.conditions import configured_roles

            wrong_usage(f"there is no role '{role}': {configured_roles(known, role)}")
    return tuple(roles or ())
