"""Running a command: the settings, the event loop, the runtime, and how failures end."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from graph_agent.errors import ConfigurationError, ServiceError, ServiceErrorCode

if TYPE_CHECKING:
    from graph_agent.bootstrap import Runtime
    from graph_agent.settings import Settings

T = TypeVar("T")

Run = Callable[[Coroutine[Any, Any, T]], T]
"""Runs a coroutine in the command's event loop, to its end."""

DONE, FAILED, WRONG_USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

_USAGE_CODES = frozenset({ServiceErrorCode.VALIDATION_ERROR, ServiceErrorCode.INVALID_ID_FORMAT})

Model = Annotated[
    str | None,
    typer.Option("--model", metavar="MODEL", help="rules, gemini, openai or scripted:FILE.", show_default=False),
]
User = Annotated[str | None, typer.Option("--user", metavar="ID", help="Whose tasks.", show_default="local")]
Conversation = Annotated[
    str | None,
    typer.Option("--conversation", metavar="ID", help="The conversation to go on with.", show_default="a new one"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def tell(text: str) -> None:
    """A message for the person at the terminal: stderr."""
    typer.echo(text, err=True)


def wrong_usage(text: str) -> NoReturn:
    """End the command because it was called wrongly."""
    tell(f"graph-agent: {text}")
    raise typer.Exit(WRONG_USAGE)


def exit_code(exc: Exception) -> int:
    """2 for what the caller wrote wrongly, else 1."""
    return WRONG_USAGE if isinstance(exc, ServiceError) and exc.code in _USAGE_CODES else FAILED


def quiet_logging(*, aloud: bool = False) -> None:
    """Keep the library's log records off the terminal, where commands say themselves what went wrong."""
    logging.basicConfig(
        force=True,
        level=logging.INFO if aloud else logging.CRITICAL,
        handlers=[logging.StreamHandler(sys.stderr) if aloud else logging.NullHandler()],
    )


def settings_now() -> Settings:
    """The environment's settings. Raises `ConfigurationError`."""
    # Pydantic takes a third of a second, which `--help` does not have.
    from graph_agent.settings import read_settings

    return read_settings()


@contextmanager
def opened(resource: AbstractAsyncContextManager[T]) -> Iterator[tuple[T, Run[Any]]]:
    """Enter `resource` in an event loop of its own; yields what it gives and the loop's `run`.

    Between two runs the loop stands still, so that a prompt may block. Ctrl-C ends the coroutine that runs, SIGTERM the
    command; either way the resource is left properly.
    """
    with _terminable(), asyncio.Runner() as runner:
        entered = runner.run(resource.__aenter__())
        try:
            yield entered, runner.run
        except BaseException as exc:
            if not runner.run(resource.__aexit__(type(exc), exc, exc.__traceback__)):
                raise
        else:
            runner.run(resource.__aexit__(None, None, None))


@contextmanager
def opened_runtime(
    *, model: str | None = None, timeout: float | None = None, temporary: bool = False
) -> Iterator[tuple[Runtime, Run[Any]]]:
    """A runtime and its `run`; stderr says which model answers, and why."""
    settings = settings_now()
    with _collector_paused():
        from graph_agent import bootstrap
        from graph_agent.models.config import AgentEngineConfig

        open_one = bootstrap.temporary_runtime if temporary else bootstrap.open_runtime

    if model is not None:
        try:
            bootstrap.choose_model(settings, model)
        except ConfigurationError as exc:
            wrong_usage(str(exc))
    config = AgentEngineConfig(timeout_seconds=timeout or settings.timeout_seconds)
    with opened(open_one(settings, model=model, config=config)) as (runtime, run):
        tell(f"model: {runtime.adapter_reason}")
        if not temporary:
            # What a killed command left open gets its honest end.
            run(runtime.chat.sweep())
        yield runtime, run


@contextmanager
def _collector_paused() -> Iterator[None]:
    """For imports: LangGraph and the rest take seconds, a tenth of them for looking through modules that never are garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _terminable() -> Iterator[None]:
    """Within this context SIGTERM unwinds the program as Ctrl-C does: a running turn still gets its terminal row."""
    terminated = False

    def terminate(signum: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        # While the event loop runs this cancels what runs in it; otherwise it raises.
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):
            # A shell starts what runs in its background deaf to Ctrl-C; SIGTERM is meant all the same.
            raise KeyboardInterrupt
        interrupt(signum, frame)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt:
        if terminated:
            raise SystemExit(TERMINATED) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
