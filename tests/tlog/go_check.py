"""Go's own `note` and `tlog` packages as a second implementation of our formats."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from graph_agent.tlog.note import encode

PACKAGES = Path("/usr/share/gocode")
"""Debian's golang-golang-x-mod-dev."""


def check_with_go(folder: Path, facts: Mapping[str, Any]) -> str:
    """Return what Go has checked, or the first error; skip the test where Go or the package is missing."""
    go = shutil.which("go")
    if go is None or not (PACKAGES / "src/golang.org/x/mod/sumdb/note").exists():
        pytest.skip("needs Go and golang.org/x/mod (Debian: golang-go, golang-golang-x-mod-dev)")
    environment = {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": str(PACKAGES),
        "GOCACHE": str(folder / "go-cache"),
        "GOTOOLCHAIN": "local",
    }
    command = [go, "run", str(Path(__file__).parent / "check.go")]
    given = json.dumps(facts, default=encode)
    return subprocess.run(command, env=environment, input=given, capture_output=True, text=True, check=False).stdout.strip()
