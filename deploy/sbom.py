"""Write the CycloneDX bill of materials of the package and its extras, without the tools of developers.

    python deploy/sbom.py FILE        # make sbom

The versions and hashes are those of `deploy/constraints.txt`; what belongs to the package is read from the installed metadata.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
EXTRAS = ("postgresql", "otel", "dask")


def shipped(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> set[str]:
    """Return the names of all distributions that one with these extras needs on this machine."""
    if (name, extras) in seen:
        return set()
    seen.add((name, extras))
    needed = set()
    for requirement in map(Requirement, requires(name) or ()):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras or {""}):
            following = canonicalize_name(requirement.name)
            needed |= {following} | shipped(following, frozenset(requirement.extras), seen)
    return needed


def main(target: Path) -> None:
    """Write the bill of materials, which `cyclonedx-py` checks against its schema."""
    names = shipped("graph-agent", frozenset(EXTRAS), set())
    text = (ROOT / "deploy/constraints.txt").read_text(encoding="utf-8")
    pins = [pin for pin in re.findall(r"^[^\s#].*(?:\n\s+.*)*", text, re.MULTILINE) if pin.partition("==")[0] in names]
    command = [str(Path(sys.executable).with_name("cyclonedx-py")), "requirements", "--output-reproducible", "--validate"]
    options = ["--pyproject", str(ROOT / "pyproject.toml"), "--output-file", str(target), "-"]
    subprocess.run([*command, *options], input="\n".join(pins), text=True, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
