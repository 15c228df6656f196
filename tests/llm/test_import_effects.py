"""The adapters as a library: importing and constructing them leaves the host's process as it was."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc, logging, warnings
from unittest import TestCase

def settings():
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
    return {
        "levels": {logger.name: logger.level for logger in loggers if logger.level},
        "disabled": [logger.name for logger in loggers if logger.disabled],
        # A library may add a NullHandler to its own logger; that prints nothing.
        "handlers": [h for one in (logging.root, *loggers) for h in one.handlers if not isinstance(h, logging.NullHandler)],
        "root": (logging.root.level, logging.root.manager.disable, logging.getLoggerClass()),
        "showwarning": warnings.showwarning,
        # The SDKs add filters for warning categories of their own, which no other library uses.
        "filters": [one for one in warnings.filters if one[2].__module__ == "builtins"],
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 0),
    }

before = settings()
from graph_agent import GeminiAdapter, OpenAICompatibleAdapter
GeminiAdapter("k")
OpenAICompatibleAdapter("k", "m", base_url="http://127.0.0.1:1")
TestCase().assertEqual(settings(), before)
"""


def test_importing_and_constructing_adapters_changes_no_setting_of_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
