"""The shipped suite and the sixty requests of a user against a real model: `make live`.

It needs GEMINI_API_KEY, or OPENAI_MODEL with OPENAI_API_KEY or OPENAI_BASE_URL, and sends some four hundred messages. It prints
the success criteria of the specification, the models that answered, the tokens, and what was refused. It exits with 1 if a
criterion is not met. `make live LIVE="--first N"` takes only the first N cases of each set. A turn has the time that
GRAPH_AGENT_TIMEOUT_SECONDS gives it.

SC-001: 90 % of the clear requests succeed; the sixty requests count as those.
SC-002: a typical request is answered within 3 seconds; 90 % of the turns count as typical. A failed turn is no answer.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from graph_agent.audit.findings import failure_cause
from graph_agent.bootstrap.adapters import open_adapter
from graph_agent.bootstrap.stores import temporary_settings
from graph_agent.bootstrap.validating import open_validation
from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.llm import LLMResponse, TokenUsage
from graph_agent.models.record import CallDisposition, DecisionRecord, EntryKind
from graph_agent.settings import Settings, read_settings
from graph_agent.validation.fixtures import load_fixtures, shipped_suite
from tests.acceptance.cases import load_requests
from tests.acceptance.run import CaseResult, run_case
from tests.chat.environment import migrated, open_environment

SHARE = 0.9
SECONDS = 3.0
NO_KEY = "make live: set GEMINI_API_KEY, or OPENAI_MODEL with OPENAI_API_KEY or OPENAI_BASE_URL"


def provider(settings: Settings) -> str | None:
    """Return the kind of model that the environment gives access to: the explicit one, else the one that has a key."""
    if settings.model is not None:
        return settings.model
    if settings.openai_model and (settings.openai_api_key or settings.openai_base_url):
        return "openai"
    return "gemini" if settings.gemini_api_key else None


async def run_suite(settings: Settings, model: str, first: int | None) -> tuple[list[CaseResult], list[DecisionRecord]]:
    """Play the shipped suite; return the verdict on each case, and the records."""
    async with open_validation(temporary_settings(settings), model=model) as (service, *_):
        played = await service.play(load_fixtures(shipped_suite())[:first])
    verdicts = [CaseResult(one.result.test_id, list(one.result.failures)) for one in played]
    return verdicts, [record for one in played for record in one.records]


async def run_requests(settings: Settings, model: str, first: int | None) -> tuple[list[CaseResult], list[DecisionRecord]]:
    """Have a user type the sixty requests; return the verdict on each, and the records."""
    with tempfile.TemporaryDirectory() as folder:
        template = await migrated(Path(folder) / "template")
        async with (
            open_adapter(settings, model) as (adapter, _),
            open_environment(Path(folder) / "environment", template) as environment,
        ):
            environment.timeout_seconds = settings.timeout_seconds
            verdicts = [await run_case(environment, case, adapter) for case in load_requests().requests[:first]]
            return verdicts, await environment.records()


def figures(records: Sequence[DecisionRecord]) -> list[str]:
    """Return lines about the models that answered, the tokens, and what was refused or failed."""
    models: Counter[str] = Counter()
    for entry in (entry for record in records for entry in record.entries if entry.kind is EntryKind.MODEL):
        models[LLMResponse.model_validate(entry.result).response_model or "(no name)"] += 1
    none = TokenUsage(prompt_tokens=0, completion_tokens=0, total_tokens=0)
    usage = sum((record.usage for record in records if record.usage is not None), none)
    calls = [call for record in records for call in record.invocations if call.disposition is CallDisposition.REFUSED]
    refused = Counter(f"{call.tool_name} ({call.error_code})" for call in calls)
    failed = Counter(str(cause) for record in records if (cause := failure_cause(record)) is not None)
    outcomes = Counter(record.decision.outcome_category.value for record in records if record.decision.outcome_category)
    return [
        f"model calls answered by: {_listed(models)}",
        f"tokens: {usage.prompt_tokens} in ({usage.cached_tokens} cached), {usage.completion_tokens} out",
        f"outcomes: {_listed(outcomes)}",
        f"refused tool calls: {_listed(refused)}",
        f"failed model calls: {_listed(failed)}",
    ]


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in counts.most_common()) or "none"


def is_fast(record: DecisionRecord) -> bool:
    """Return True if the turn was answered within `SECONDS`."""
    failed = record.decision.outcome_category is OutcomeCategory.RESPONSE_GENERATION or failure_cause(record) is not None
    return not failed and record.duration_ms <= SECONDS * 1000


def criterion(name: str, met: int, total: int) -> tuple[bool, str]:
    """Return whether at least `SHARE` of `total` is met, and the line that says so."""
    passed = total > 0 and met >= SHARE * total
    return passed, f"{name}: {met} of {total} ({met / max(1, total):.0%}), {'met' if passed else 'NOT met'}"


async def run(settings: Settings, model: str, first: int | None = None) -> bool:
    """Run both sets and print the report; return True if both criteria are met."""
    suite, suite_records = await run_suite(settings, model, first)
    requests, request_records = await run_requests(settings, model, first)
    records = [*suite_records, *request_records]
    fast = sum(is_fast(record) for record in records)
    verdicts = [
        criterion("SC-001, the user's requests that succeed", sum(one.passed for one in requests), len(requests)),
        criterion(f"SC-002, turns within {SECONDS:g} s", fast, len(records)),
    ]
    for verdict in (*suite, *requests):
        if not verdict.passed:
            print(verdict)
    print(f"shipped suite: {sum(one.passed for one in suite)} of {len(suite)} cases pass")
    print("\n".join([line for _, line in verdicts] + figures(records)))
    return all(passed for passed, _ in verdicts)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make live", description="Run the suite and the requests against a real model.")
    parser.add_argument("--first", type=int, metavar="N", help="run only the first N cases of each set")
    settings = read_settings()
    model = provider(settings)
    first = parser.parse_args(arguments).first
    if model is None:
        print(NO_KEY, file=sys.stderr)
        return 2
    return 0 if asyncio.run(run(settings, model, first)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
