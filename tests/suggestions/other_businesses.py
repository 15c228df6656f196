"""Two more businesses, written after the suggestions: a clinic's desk and the deployments of a software company."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.policy.cedar_shop import ShopTool, schema
from tests.suggestions.businesses import TEXT, Business, Call

# A clinic: appointments after the patient was looked up, reminders to patients, invoices in a nested object.

_CLINIC_TOOLS = (
    ShopTool("patients.find", schema("name", name=TEXT), "records", reads=True),
    ShopTool(
        "appointments.book",
        schema(
            "patient-id",
            "minutes",
            "kind",
            **{"patient-id": TEXT},
            minutes={"type": "integer"},
            kind=TEXT,
            urgent={"type": "boolean"},
        ),
        "calendar",
    ),
    ShopTool(
        "invoices.send",
        schema("to", "invoice", to=TEXT, invoice=schema("total", "lines", total={"type": "number"}, lines={"type": "integer"})),
        "billing",
    ),
)
_KINDS = (("check-up", 15), ("vaccination", 10), ("consultation", 30), ("surgery", 90))


def _patient(random: Random) -> str:
    return f"P-{random.randrange(10**6):06}"


def _book(random: Random, minutes: int | None = None) -> Call:
    kind, usual = random.choices(_KINDS, (10, 6, 8, 1))[0]
    arguments: dict[str, Any] = {
        "patient-id": _patient(random),
        "minutes": minutes or usual + 5 * random.randrange(3),
        "kind": kind,
    }
    return "appointments.book", arguments | ({"urgent": True} if random.random() < 0.07 else {})


def _invoice(random: Random, host: str, total: float | None = None) -> Call:
    total = round(random.gammavariate(2.5, 60) + 10, 2) if total is None else total
    return "invoices.send", {
        "to": f"{_patient(random).lower()}@{host}",
        "invoice": {"total": total, "lines": random.randrange(1, 7)},
    }


def _find(random: Random) -> Call:
    return "patients.find", {
        "name": random.choice(("Müller", "Nguyễn", "O'Hara", "山田", "Smith")) + f" {random.randrange(400)}"
    }


_MAIL_HOSTS, _SHARES = ("mail.example", "post.example", "web.example", "uni.example", "city.example"), (50, 30, 15, 4, 1)


def _clinic(random: Random) -> list[Call]:
    if random.random() < 0.65:
        # Families book for two or three.
        return [_find(random), *(_book(random) for _ in range(random.choices((1, 2, 3), (8, 2, 1))[0]))]
    return [_find(random), _invoice(random, random.choices(_MAIL_HOSTS, _SHARES)[0])]


def _clinic_excess(random: Random, kind: str) -> list[Call]:
    if kind == "too large":
        if random.random() < 0.5:
            return [_find(random), _book(random, random.randrange(240, 1000))]
        return [_find(random), _invoice(random, _MAIL_HOSTS[0], round(random.uniform(1500, 20_000), 2))]
    if kind == "wrong host":
        return [_find(random), _invoice(random, f"mail{random.randrange(60)}.other.test")]
    return [_book(random) if random.random() < 0.5 else _invoice(random, _MAIL_HOSTS[0])]


# Deployments: a release after its tests have run, traffic in percent, artifacts of few registries, from morning to evening.

_DEPLOY_TOOLS = (
    ShopTool("run-tests", schema("service", service=TEXT), "ci"),
    ShopTool(
        "deploy",
        schema(
            "service",
            "image",
            "traffic",
            service=TEXT,
            image=TEXT,
            traffic={"type": "number", "minimum": 0, "maximum": 100},
            region={"type": "string", "enum": ["eu", "us", "ap", "test"]},
        ),
        "cluster",
    ),
    ShopTool(
        "silence_alerts",
        schema("service", "seconds", service=TEXT, seconds={"type": "integer"}, tags={"type": "array", "items": TEXT}),
        "alerts",
    ),
)
_SERVICES = tuple(f"svc-{name}" for name in ("cart", "login", "search", "pay", "mail", "feed", "ads", "maps"))
_REGISTRIES = ("registry.corp.example", "mirror.corp.example")


def _deploy(random: Random, service: str, host: str, traffic: float | None = None) -> Call:
    share = random.choice((1.0, 5.0, 5.0, 10.0, 12.5)) if traffic is None else traffic
    arguments: dict[str, Any] = {
        "service": service,
        "image": f"https://{host}/{service}:{random.randrange(10**5)}",
        "traffic": share,
    }
    return "deploy", arguments | ({"region": random.choice(("eu", "us"))} if random.random() < 0.6 else {})


def _silence(random: Random, service: str, seconds: int | None = None) -> Call:
    quiet = seconds or random.choice((300, 600, 900, 1800, 3600))
    return "silence_alerts", {"service": service, "seconds": quiet, "tags": ["deploy"] * random.randrange(3)}


def _releases(random: Random) -> list[Call]:
    service = random.choice(_SERVICES)
    tests: Call = ("run-tests", {"service": service})
    if random.random() < 0.3:
        return [tests, _silence(random, service), _deploy(random, service, random.choice(_REGISTRIES))]
    return [tests, _deploy(random, service, random.choice(_REGISTRIES))]


def _releases_excess(random: Random, kind: str) -> list[Call]:
    service = random.choice(_SERVICES)
    tests: Call = ("run-tests", {"service": service})
    if kind == "too large":
        if random.random() < 0.5:
            return [tests, _deploy(random, service, _REGISTRIES[0], random.choice((50.0, 100.0, 75.5)))]
        return [tests, _silence(random, service, random.randrange(20_000, 900_000))]
    if kind == "wrong host":
        return [tests, _deploy(random, service, f"r{random.randrange(30)}.hub.test")]
    return [_deploy(random, service, _REGISTRIES[0])]


OTHER_BUSINESSES = (
    Business("clinic", _CLINIC_TOOLS, 18, ("desk", "doctor"), (7, 19), _clinic, _clinic_excess),
    # Nearly everything is done by a few programs.
    Business("deployments", _DEPLOY_TOOLS, 9, ("engineer",), (9, 21), _releases, _releases_excess),
)
