"""`graph-agent`: the commands, and what becomes of everything that can go wrong in them.

Results go to stdout, messages to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Nothing heavy is
imported before a command runs, so `--help` is quick.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from graph_agent.cli import ask, baseline, chain, chat, demo, diagram, doctor, log, replay, serve, step, tools, validate
from graph_agent.cli.running import FAILED, INTERRUPTED, exit_code, quiet_logging, tell
from graph_agent.errors import GraphAgentError

app = typer.Typer(
    name="graph-agent",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("ask")(ask.ask)
app.command("chat")(chat.chat)
app.command("serve")(serve.serve)
app.command("step")(step.step)
app.command("demo")(demo.demo)
app.command("diagram")(diagram.diagram)
app.command("doctor")(doctor.doctor)
app.command("validate")(validate.validate)
app.command("replay")(replay.replay)
log.app.command("verify")(chain.verify)
log.app.command("heads")(chain.heads)
app.add_typer(log.app, name="log")
app.add_typer(baseline.app, name="baseline")
app.add_typer(tools.app, name="tools")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"graph-agent {version('graph-agent')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    tracebacks: Annotated[bool, typer.Option("--traceback", help="Show where an unexpected failure comes from.")] = False,
) -> None:
    """A governed runtime between a language model and real data: a message goes in, a decision comes out.

    Everything is kept in GRAPH_AGENT_HOME (~/.graph_agent) unless DATABASE_URL and LOG_DATABASE_URL say otherwise.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script. Never ends in a traceback, unless one was asked for."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    asked_for_traceback = given[:1] == ["--traceback"]
    quiet_logging(aloud=asked_for_traceback)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show a character shows a question mark instead.
            stream.reconfigure(errors="replace")
    try:
        app(given, prog_name="graph-agent")
    except GraphAgentError as exc:
        tell(f"graph-agent: {getattr(exc, 'message', None) or exc}")
        sys.exit(exit_code(exc))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has left. What is still buffered must not fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except Exception as exc:
        if asked_for_traceback:
            traceback.print_exc()
        else:
            tell(f"graph-agent: unexpected failure ({type(exc).__name__}); graph-agent --traceback COMMAND shows where")
        sys.exit(FAILED)
    sys.exit(0)
