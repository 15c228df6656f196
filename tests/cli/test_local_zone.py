"""The time zone of the machine, in which the commands say times."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph_agent.cli.local_zone import local_zone
from tests.cli.conftest import Cli


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
        ("UTC", ""),
        ("CET-1CEST,M3.5.0,M10.5.0/3", ""),
        ("/etc/localtime", ""),
        ("../x", ""),
    ],
)
def test_the_variable_of_the_system_names_the_zone(variable: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", variable)
    assert local_zone() == name


def test_without_it_the_link_of_the_system_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    zones, link = tmp_path / "zoneinfo" / "Asia", tmp_path / "localtime"
    zones.mkdir(parents=True)
    link.symlink_to(zones / "Tokyo")
    assert local_zone(link) == "Asia/Tokyo"
    assert local_zone(tmp_path / "missing") == ""
    (tmp_path / "copied").write_bytes(b"TZif")
    assert local_zone(tmp_path / "copied") == ""


def test_a_message_of_a_command_has_the_zone_of_the_machine(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    asked = cli("ask", "add a task to call mom", "--json").json()
    assert '"time_zone": "Asia/Tokyo"' in cli("log", "show", asked["decision_id"], "--json").out
    assert cli("replay", asked["decision_id"]).code == 0
