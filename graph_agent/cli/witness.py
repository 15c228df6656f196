"""`graph-agent witness`: cosign the checkpoints of logs, for those who do not trust their operators."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress
from typing import Annotated

import typer

from graph_agent.api.server import HttpServerConfig, Server
from graph_agent.api.witness import witness_app
from graph_agent.bootstrap.witness_home import remembered_logs, witness_key
from graph_agent.cli.listening import open_listener, parse_address, serve_until_stopped, url_of
from graph_agent.cli.options import not_blank, option
from graph_agent.cli.running import open_in_loop, print_stderr, wrong_usage
from graph_agent.clock import SystemClock
from graph_agent.db import Database
from graph_agent.settings import Settings, read_settings
from graph_agent.tlog.note import KeyType, NoteError, VerifierKey
from graph_agent.tlog.witness import Witness, open_witness_state


def witness(
    logs: Annotated[
        list[str] | None, typer.Option("--log", metavar="KEY", help="Cosign checkpoints of the log with this key.")
    ] = None,
    listen: Annotated[
        str, option("--listen", "HOST:PORT", "Listen on this address; port 0 takes a free one.")
    ] = "127.0.0.1:7380",
    name: Annotated[
        str | None, option("--name", "NAME", "Name the new key so (default: a random name).", check=not_blank)
    ] = None,
) -> None:
    """Run a witness: it cosigns each checkpoint of a log that continues the last one, and refuses all others.

    Without a log it prints its key, which the operator of the log needs first, and ends: `log witness add URL KEY` then prints
    the key of the log. A witness that `log witness add URL --new FOLDER` has made knows its log. Run it where the operator
    of the log has no access. Its key and its state are stored in GRAPH_AGENT_HOME. It speaks plain HTTP: put a proxy with TLS
    in front of it.
    """
    settings = read_settings()
    host, port = parse_address(listen, "--listen")
    try:
        keys = [VerifierKey.parse(text) for text in logs or []]
        key = witness_key(settings.home, name)
    except NoteError as exc:
        wrong_usage(str(exc))
    if any(key.kind is not KeyType.LOG for key in keys):
        wrong_usage("--log takes the key of a log, not that of a witness")
    keys = list(dict.fromkeys([*keys, *remembered_logs(settings.home)]))
    if not keys:
        typer.echo(f"witness key: {key.verifier}")
        print_stderr("the operator of the log adds it, with the address of this witness: graph-agent log witness add URL KEY")
        print_stderr("that prints the command which starts this witness, with the key of the log")
        return
    with closing(open_listener(host, port, "--listen")) as listener, open_in_loop(_open_state(settings)) as (database, run):
        app = witness_app(Witness(database, key, keys, clock=SystemClock()))

        def announce() -> None:
            print_stderr(f"witness key: {key.verifier}")
            print_stderr(f"serving {url_of(host, listener)}")

        with suppress(KeyboardInterrupt):
            run(serve_until_stopped(Server(HttpServerConfig(app, lifespan="off"), announce), listener))


@asynccontextmanager
async def _open_state(settings: Settings) -> AsyncGenerator[Database]:
    database = Database.open(f"sqlite:///{settings.home / 'witness.db'}")
    try:
        yield open_witness_state(database)
    finally:
        await database.close()
