"""A runtime for the commands that run turns. Only those import this module, which loads LangGraph and the MCP SDK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from graph_agent.bootstrap.adapters import choose_model
from graph_agent.bootstrap.runtime import Runtime, open_runtime, temporary_settings
from graph_agent.cli.running import Run, open_in_loop, print_stderr, wrong_usage
from graph_agent.cli.tool_progress import ProgressLines
from graph_agent.errors import ConfigurationError
from graph_agent.models.config import AgentEngineConfig
from graph_agent.settings import Settings


def check_model(settings: Settings, model: str | None) -> None:
    """Exit with a usage error if the option --model names no model."""
    if model is not None:
        try:
            choose_model(settings, model)
        except ConfigurationError as exc:
            wrong_usage(str(exc))


@contextmanager
def open_command_runtime(
    settings: Settings, *, model: str | None = None, timeout: float | None = None, temporary: bool = False, workers: int = 1
) -> Iterator[tuple[Runtime, Run[Any]]]:
    """Yield a runtime and its `run`; print on stderr which model answers, and why, unless this is one of several workers."""
    check_model(settings, model)
    config = AgentEngineConfig(timeout_seconds=timeout or settings.timeout_seconds)
    chosen = temporary_settings(settings) if temporary else settings
    with open_in_loop(open_runtime(chosen, model=model, config=config, workers=workers)) as (runtime, run):
        if workers == 1:
            print_stderr(f"model: {runtime.adapter_reason}")
        runtime.engine.add_hook(ProgressLines)
        if not temporary:
            # Close the turns that a killed command left open.
            run(runtime.chat.sweep())
        yield runtime, run
