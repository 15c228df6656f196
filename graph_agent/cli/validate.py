"""`graph-agent validate`: run test cases and check the decisions."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree

import typer

from graph_agent.bootstrap.validating import ValidationJob, grants_shipped_tools, open_validation, play_part, split_cases
from graph_agent.cli.executors import Division, divided, progress_bar
from graph_agent.cli.options import AsJson, Model, option, with_files
from graph_agent.cli.running import DONE, FAILED, open_in_loop, print_stderr, wrong_usage
from graph_agent.cli.runtime import check_model
from graph_agent.cli.show import json_line, print_text
from graph_agent.reply.text import visible
from graph_agent.settings import Settings
from graph_agent.validation.fixtures import Fixture, load_fixtures, shipped_suite
from graph_agent.validation.service import PlayedCase, ValidationReport, ValidationService


@with_files()
@divided
def validate(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Run the YAML test cases in this file or folder.", show_default="the shipped suite"
        ),
    ] = None,
    model: Model = None,
    *,
    settings: Settings,
    only: Annotated[str | None, option("--only", "PATTERN", "Run the cases whose test_id matches: delete-*")] = None,
    real_tools: Annotated[
        bool,
        typer.Option(
            "--real-tools",
            help="Run the cases on the servers of --mcp, recorded like any turn. Only servers that can be emptied are changed.",
        ),
    ] = False,
    parallel: Annotated[int, typer.Option("--parallel", min=1, max=32, help="Run this many cases at a time.")] = 1,
    division: Division,
    as_json: AsJson = False,
    junit: Annotated[bool, typer.Option("--junit", help="Print JUnit XML.")] = False,
) -> None:
    """Run test cases in an isolated environment and print those that fail.

    A case plays the tools that it has, with its recorded results; a case without tools runs on a task server of its own. No
    configured server is called, unless --real-tools is given. Exits with 1 if a case fails.
    """
    if as_json and junit:
        wrong_usage("give either --json or --junit, not both")
    if real_tools and (division or parallel > 1):
        wrong_usage("--real-tools runs one case after the other: leave out --parallel, --workers, --dask and --checkpoint")
    check_model(settings, model)
    if file is None and not grants_shipped_tools(settings):
        wrong_usage(
            "the shipped suite is for the shipped tools, and the constitution grants none of them: name a FILE with test cases "
            "of yours"
        )
    if division and (model or settings.model or "").startswith("scripted:"):
        wrong_usage("a scripted model answers in the order of the cases, which --workers, --dask and --checkpoint divide")
    job = ValidationJob(settings, model, parallel)
    with open_in_loop(open_validation(settings, model=model, real_tools=real_tools)) as ((service, reason), run):
        print_stderr(f"model: {reason}")
        if settings.mcp is not None and not real_tools:
            print_stderr(f"tools: played by the cases; the servers of {settings.mcp} are called only with --real-tools")
        source = file or shipped_suite()
        fixtures = [one for one in load_fixtures(source) if only is None or fnmatchcase(one.test_id, only)]
        if not fixtures:
            wrong_usage(f"no case matches '{only}'")
        started = time.monotonic()
        played = _play_divided(fixtures, job, division) if division else run(_play(service, fixtures, parallel))
        seconds = time.monotonic() - started
        report = run(service.report(played, suite=source.stem, seconds=seconds))
    if as_json:
        typer.echo(json_line(report.to_json()))
    elif junit:
        typer.echo(_junit(report))
    else:
        _print(report)
    for result in report.results:
        if not result.passed and (as_json or junit):
            print_stderr(f"failed: {result.test_id}")
    raise typer.Exit(DONE if report.passed else FAILED)


async def _play(service: ValidationService, fixtures: list[Fixture], parallel: int) -> list[PlayedCase]:
    numbers = count(1)
    with progress_bar("validating") as advance:
        return await service.play(fixtures, parallel=parallel, on_result=lambda _: advance(next(numbers), len(fixtures)))


def _play_divided(fixtures: list[Fixture], job: ValidationJob, division: Division) -> list[PlayedCase]:
    played: list[PlayedCase] = []
    identity = ["validate", *job.to_json()]
    with division.run(play_part, job, split_cases(fixtures), identity) as finished, progress_bar("validating") as advance:
        for results in finished:
            played += map(PlayedCase.model_validate, results)
            advance(len(played), len(fixtures))
    return played


def _print(report: ValidationReport) -> None:
    for result in report.results:
        if not result.passed:
            print_text((f"FAILED {visible(result.test_id)}", "red"))
            for said in result.inputs:
                print_text((f"       {visible(said)[:200]}", "dim"))
            for failure in result.failures:
                print_text(f"       {visible(failure)}")
    seconds = report.duration_ms / 1000
    style = "green" if report.passed else "bold red"
    print_text((f"{report.pass_count} of {report.test_count} cases passed in {seconds:.1f} s", style))


def _junit(report: ValidationReport) -> str:
    figures = {"tests": str(report.test_count), "failures": str(report.fail_count), "time": f"{report.duration_ms / 1000:.3f}"}
    suite = ElementTree.Element("testsuite", {"name": visible(report.suite or "validation"), **figures})
    for result in report.results:
        figures = {"name": visible(result.test_id), "time": f"{result.duration_ms / 1000:.3f}"}
        case = ElementTree.SubElement(suite, "testcase", {"classname": suite.attrib["name"], **figures})
        if not result.passed:
            failure = ElementTree.SubElement(case, "failure", {"message": visible(result.failures[0])})
            failure.text = visible("\n".join(result.failures))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)
