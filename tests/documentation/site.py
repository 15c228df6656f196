"""The builder of the documentation site.

The pages link to each other and to files of the repository as they lie in it, so that they can be read without the site. The
site gathers them in one folder: a linked file comes along, and each link is rewritten to its new place. Zensical then reports
every link and anchor that leads nowhere.

The reference is only in the site. In the repository a link to one of its pages leads to the code that the page is written from.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "AGENTS.md": "agents.md",
    "CHANGELOG.md": "changelog.md",
}
"""The pages outside `docs/`, with their names in the site."""

WRITTEN_FROM = {
    "graph_agent/cli/main.py": "reference/cli.md",
    "graph_agent/settings.py": "reference/configuration.md",
    "graph_agent/turn/events.py": "reference/events.md",
    "graph_agent/api/bodies.py": "reference/http.md",
    "tests/llm/wire_table.py": "reference/model_errors.md",
    "graph_agent/errors.py": "reference/outcomes.md",
    "graph_agent/__init__.pyi": "reference/python.md",
}
"""The pages of the reference, by the file to which a link in the repository leads."""

FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")


def page_sources() -> dict[str, Path]:
    """Return every page of the repository by its place in the site."""
    moved = {name: ROOT / source for source, name in MOVED.items()}
    return moved | {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}


def gather(target: Path, reference: Mapping[str, str]) -> list[str]:
    """Write the pages, and all files that they link to, into `target`; return the links that lead nowhere.

    `reference` has the text of every page of the reference by its place.
    """
    pages = page_sources() | {"llms.txt": DOCS / "llms.txt"} | {name: DOCS / name for name in reference}
    places = {source: name for name, source in pages.items()}
    places |= {ROOT / file: name for file, name in WRITTEN_FROM.items()}
    broken: list[str] = []

    def place_of(linked: Path) -> str:
        """Return the place of a linked file in the site, and write it there if it is no page."""
        if linked in places:
            return places[linked]
        if linked.is_relative_to(DOCS):
            place = linked.relative_to(DOCS).as_posix()
        else:
            place = f"repository/{linked.relative_to(ROOT).as_posix()}"
        places[linked] = f"{place}/index.md" if linked.is_dir() else place
        (target / places[linked]).parent.mkdir(parents=True, exist_ok=True)
        if linked.is_dir():
            files = [file for file in sorted(linked.rglob("*")) if file.is_file() and "__pycache__" not in file.parts]
            items = [f"- [{file.relative_to(linked)}]({os.path.relpath(place_of(file), place)})\n" for file in files]
            (target / places[linked]).write_text(f"# {linked.name}\n\n{''.join(items)}", encoding="utf-8")
        else:
            shutil.copyfile(linked, target / place)
        return places[linked]

    for name, source in pages.items():

        def rewrite(link: re.Match[str], name: str = name, source: Path = source) -> str:
            linked = (source.parent / link[1]).resolve()
            if not linked.exists() or not linked.is_relative_to(ROOT):
                broken.append(f"{source.relative_to(ROOT)}: {link[0]}")
                return link[0]
            return os.path.relpath(place_of(linked), PurePosixPath(name).parent) + (link[2] or "")

        text = reference.get(name) or source.read_text(encoding="utf-8")
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(outside_of_fences(text, rewrite), encoding="utf-8")
    return broken


def outside_of_fences(text: str, rewrite: object) -> str:
    """Return the text with `rewrite` applied to every link that is not in a code block."""
    parts, end = [], 0
    for fence in FENCED.finditer(text):
        parts += [LINK.sub(rewrite, text[end : fence.start()]), fence[0]]  # type: ignore[call-overload]  # a function
        end = fence.end()
    return "".join([*parts, LINK.sub(rewrite, text[end:])])  # type: ignore[call-overload]  # a function


def build(folder: Path, reference: Mapping[str, str]) -> tuple[bool, str]:
    """Build the site into `folder`/site; return whether there was no warning, and what was reported."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    pages.mkdir(parents=True)
    if broken := gather(pages, reference):
        return False, "".join(f"{link}: there is no such file\n" for link in broken)
    shutil.copytree(DOCS / "theme", folder / "theme")
    shutil.copyfile(DOCS / "zensical.toml", folder / "zensical.toml")
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "--clean"]
    environment = os.environ | {"NO_COLOR": "1"}
    built = subprocess.run(command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    # The sources of the pages, for readers that prefer Markdown to HTML: llms.txt links to them.
    for name in [*page_sources(), *reference]:
        (folder / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(pages / name, folder / "site" / name)
    return built.returncode == 0 and "No issues found" in built.stdout, built.stdout
