"""`graph-agent`: the table of commands, and how each failure is reported.

Results go to stdout, messages to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a check could not
finish, 130 interrupted.

A command's module is imported when the command runs, so all modules but this one import what they need at their top, and
`--help` stays quick. Commands that need LangGraph or the MCP SDK are in other modules than those that do without.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from graph_agent.bootstrap.extras import import_extra
from graph_agent.cli.running import DONE, PROGRAM, configure_logging, report_failures


class Command(NamedTuple):
    """`target` is module:function in this package, `help` the first sentence of the function's docstring.

    `extra` is the extra of the distribution that the module imports, if any.
    """

    target: str
    help: str
    extra: str | None = None


COMMANDS: Mapping[str, Mapping[str, Command]] = {
    PROGRAM: {
        "ask": Command("ask:ask", "Send one message and print the reply, with a receipt for every change."),
        "chat": Command("chat:chat", "Chat in one conversation, until /quit or the end of input."),
        "serve": Command(
            "serve:serve", "Serve the chat API and the page until Ctrl-C or SIGTERM; running turns are finished first."
        ),
        "gateway": Command(
            "mcp_servers:gateway", "Serve the tools of MCP servers to any MCP client, judged, confirmed and recorded."
        ),
        "step": Command("chat:step", "Send one message and print each state with its outcome and changes, then the reply."),
        "demo": Command("demo:demo", "Show a scripted conversation, then the record of one of its decisions."),
        "diagram": Command("diagram:diagram", "Print the state machine as a Mermaid diagram."),
        "doctor": Command(
            "doctor:doctor",
            "Check settings, model, constitution, database, log, retention, tools, approvals, due work, key and endpoint.",
        ),
        "validate": Command("validate:validate", "Run test cases in an isolated environment and print those that fail."),
        "budget": Command(
            "log:budget", "Print what a user has used in this hour and day of the budgets that conditions set, by tool."
        ),
        "stop": Command("stops:stop", "Stop everything at once, or one tool, user or MCP server, until `graph-agent resume`."),
        "resume": Command("stops:resume", "End a stop."),
        "stops": Command("stops:print_stops", "List what is stopped now, oldest first."),
        "undo": Command("undo:undo", "Undo what a decision has done, as far as its tools can."),
        "replay": Command("replay:replay", "Run decisions again from their records, offline, and print the differences."),
        "witness": Command(
            "witness:witness",
            "Run a witness: it cosigns each checkpoint of a log that continues the last one, and refuses all others.",
        ),
    },
    "due": {
        "list": Command("due:list_due", "List the work that waits: what is stuck, then what is due next."),
        "retry": Command("due:retry", "Make work due now, as if it was not tried. A server does it within seconds."),
    },
    "mandates": {
        "list": Command(
            "mandates:print_mandates",
            "List the plans that people have agreed to, newest first, with how much of each line was used.",
        ),
        "from": Command("mandates_from:ask_about_plan", "Ask about a plan that does the changes of a decision again."),
        "show": Command("mandates:show_mandate", "Print one plan: its lines, what was drawn from each, and its state."),
        "revoke": Command("mandates:revoke", "Revoke a plan: from now on none of its lines covers a call."),
    },
    "log": {
        "list": Command("log:list_decisions", "List decisions, newest first."),
        "show": Command("log:show_decision", "Print one decision: its record, and why it came out as it did."),
        "export": Command("log_files:export_decisions", "Export closed decisions as records, oldest first."),
        "metrics": Command("log:print_metrics", "Print totals, rates, percentiles and breakdowns of the decisions."),
        "prune": Command("pruning:prune_decisions", "Remove closed decisions that are older than the retention."),
        "verify": Command(
            "verification:verify",
            "Verify the log: its rows, its signed tree, and that it continues what its witnesses have seen.",
        ),
        "consistency": Command(
            "transparency:consistency", "Prove that the log is a continuation of a checkpoint that you kept."
        ),
        "erase": Command(
            "erasure:erase",
            "Erase a user: records, conversations, turns and operations, and the salts by which the log commits to them.",
        ),
        "fork": Command(
            "transparency:fork", "Continue a log that was put back on purpose, for example from a backup, under a new origin."
        ),
        "rotate": Command(
            "transparency:rotate", "Add a new key for the log, which signs beside the current one, and state it in the log."
        ),
    },
    "witness": {
        "add": Command("transparency:add", "Add a witness, and print the command that starts it."),
    },
    "db": {
        "migrate": Command("db:migrate", "Create the tables of the database, or update them to this version."),
        "copy": Command("db:copy", "Copy everything in a database to an empty one."),
    },
    "constitution": {
        "show": Command("constitution:show_constitution", "Print the constitution of the settings here, as a start for yours."),
        "new": Command("rules:new_constitution", "Print a constitution that lists every tool of the MCP servers."),
        "check": Command(
            "rules:check_constitution",
            "Explain a constitution line by line: what each tool may do, what it promises, and which facts are read for its "
            "calls.",
        ),
    },
    "rules": {
        "list": Command("rule_sets:list_rules", "List since when rules were in force, newest first, with what had changed."),
        "activate": Command(
            "activation:activate",
            "Put the rules of the files and settings here in force for every process on this database.",
            "prove",
        ),
        "rollback": Command("activation:rollback", "Put earlier rules in force again, under a new number.", "prove"),
        "follow": Command("released_rules:follow", "Let each process use the rules of its own files again."),
        "show": Command(
            "rule_sets:show_rules", "Print the parts of the rules in force, or of earlier ones, with the digest of each."
        ),
    },
    "policy": {
        "new": Command("rules:new_policy", "Print a conditions file for the tools, with commented examples."),
        "suggest": Command(
            "suggestions:suggest_policy", "Print a conditions file that asks for a yes outside of what was ordinary."
        ),
        "trial": Command(
            "trial:try_policy", "Print what each rule in the shadow would have changed: by tool, by user, with examples."
        ),
        "check": Command("rules:check_policy", "Explain a conditions file: those for each tool, and what they cannot see."),
        "explain": Command(
            "policy_analysis:explain_policy",
            "Print for every tool whether it may run without a yes, with one, and with approvals.",
            "prove",
        ),
        "diff": Command("policy_analysis:diff_policies", "Print what a change of the policy newly permits.", "prove"),
        "prove": Command("policy_analysis:prove_promises", "Check promises about every call that the policy accepts.", "prove"),
        "schema": Command("rules:schema", "Print the Cedar schema of the tools, for an editor and for Cedar's own tools."),
    },
    "questions": {
        "list": Command(
            "question_list:list_questions",
            "List the questions that wait for your answer: your own for a yes, and calls of others for your approval.",
        ),
        "show": Command(
            "questions:show_question",
            "Print everything about a question, and what your approval would do now or, after its end, what came of it.",
        ),
        "answer": Command(
            "questions:answer",
            "Answer a question, and print what came of it. What is confirmed, or approved by enough people, is done at once.",
        ),
        "cancel": Command(
            "questions:cancel", "Withdraw a question about a call of your own. You are asked first, as by `answer`."
        ),
    },
    "tools": {
        "list": Command("tools:list_tools", "List the tools that the constitution allows and the server serves."),
        "call": Command("tool_call:call", "Call one tool over MCP and print its result as JSON."),
        "pin": Command("tools:pin", "Write the definitions of the MCP servers' tools to a lock file beside the constitution."),
        "diff": Command("tools:diff", "List the tools that differ from the lock file."),
        "sign-in": Command("tools:sign_in", "Sign in to an MCP server in the browser."),
        "serve": Command("mcp_servers:serve_tools", "Serve the shipped task list to any MCP client, over stdio or HTTP."),
    },
}


class LazyGroup(TyperGroup):
    """A group whose commands come from `COMMANDS`. Listing them imports nothing; running one imports its module."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        listed = {name: TyperCommand(name, help=command.help) for name, command in self._table.items()}
        self.commands = {**listed, **self.commands}

    @property
    def _table(self) -> Mapping[str, Command]:
        return COMMANDS[self.name or PROGRAM]

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and name in self._table:
            command = load_command(name, self._table[name])
        return name, command, rest


def load_command(name: str, command: Command) -> Any:
    """Import a command's module and return the command as Typer builds it from the function's signature."""
    module_name, _, function = command.target.partition(":")
    module = f"graph_agent.cli.{module_name}"
    # The collector would walk all modules again and again while they are imported, and modules are never garbage.
    gc.disable()
    try:
        loaded = import_extra(module, command.extra) if command.extra else import_module(module)
    finally:
        gc.enable()
    single = typer.Typer(add_completion=False, rich_markup_mode="rich")
    single.command(name)(getattr(loaded, function))
    return typer.main.get_command(single)


app = typer.Typer(
    name=PROGRAM,
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _help in {
    "questions": "Answer what waits for your yes or your approval, or withdraw what you asked for.",
    "due": "Show the work that waits for a server, and try again what is stuck.",
    "mandates": "Make a plan from a decision, show those that people have agreed to, or revoke them.",
    "log": "Read the record of decisions.",
    "db": "Update the database, or copy it to another one.",
    "constitution": "Print, write and explain the file that says what may be done.",
    "rules": "Show which rules are in force, since when, and what they say.",
    "policy": "Write, check and explain conditions for the tools, in Cedar.",
    "tools": "Use the tools directly, without a model.",
}.items():
    _group = typer.Typer(cls=LazyGroup, no_args_is_help=True)
    if _name == "log":
        _group.add_typer(
            typer.Typer(cls=LazyGroup, no_args_is_help=True), name="witness", help="Name those who witness the log."
        )
    app.add_typer(_group, name=_name, help=_help)


def _print_version(wanted: bool) -> None:
    if wanted:
        # Imported here, because it loads the parser of e-mail, which nothing but this option needs.
        from importlib.metadata import version

        typer.echo(f"{PROGRAM} {version(PROGRAM)}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    tracebacks: Annotated[bool, typer.Option("--traceback", help="Print the traceback of an unexpected failure.")] = False,
) -> None:
    """A governed runtime between a language model and real data: a message goes in, a decision comes out.

    All data is stored in GRAPH_AGENT_HOME (~/.graph_agent) unless DATABASE_URL is set.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line. An exception becomes one sentence on stderr, unless --traceback is given."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    show_traceback = given[:1] == ["--traceback"]
    # Read here, because also an error about another option is a line of JSON then.
    as_json = "--log-format=json" in given or ("--log-format", "json") in pairwise(given)
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if getattr(sys, name) is None:
            # The caller has closed it. A file that we open next must not get its number.
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 (it stays open)
    configure_logging(verbose=show_traceback, as_json=as_json)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show a character shows a question mark instead.
            stream.reconfigure(errors="replace")
    with report_failures(show_traceback=show_traceback):
        sys.exit(app(given, prog_name=PROGRAM, standalone_mode=not as_json) or DONE)
