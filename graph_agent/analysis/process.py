"""The analysis in a process: it may take long and much memory, so a server limits both, and ends it if the client is gone."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from graph_agent.errors import ConfigurationError, ServiceError, ServiceErrorCode
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.snapshot import PolicySnapshot

SECONDS = 60.0
"""The longest time of one analysis."""
_QUESTION_SECONDS = 3.0
_MEGABYTES = 1024
_NICENESS = 10


async def analyze(old: PolicySnapshot, new: PolicySnapshot, promises: ConditionsFile | None) -> dict[str, Any]:
    """Return the JSON of the results of `compare` as "changes", and those of `prove` about the new policy as "promises".

    Raises `ServiceError`: SERVICE_UNAVAILABLE without the extra or if the process fails, QUERY_TIMEOUT, VALIDATION_ERROR for
    unusable promises. If the caller is cancelled, the process is ended.
    """
    if find_spec("z3") is None:
        text = "What becomes possible is not analyzed: install the extra 'prove' (pip install 'graph-agent[prove]')."
        raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text)
    policies = [[one.texts, one.digests, dict(one.policy.servers)] for one in (old, new)]
    asked: dict[str, Any] = {"policies": policies, "promises": None}
    if promises is not None:
        asked["promises"] = [promises.text, promises.name, promises.roles, promises.time_zone]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        answer, _ = await asyncio.wait_for(process.communicate(json.dumps(asked).encode()), SECONDS)
    except TimeoutError:
        text = f"The analysis took longer than {SECONDS:g} s and was ended. `graph-agent policy diff` has no such limit."
        raise ServiceError(ServiceErrorCode.QUERY_TIMEOUT, text) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, "The process that analyzes policies has failed.")
    found: dict[str, Any] = json.loads(answer)
    if "problem" in found:
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, found["problem"])
    return found


def _answer(policies: list[Any], promises: list[Any] | None) -> dict[str, Any]:
    # Imported here: the solver belongs to an extra, and only this process loads it.
    import z3

    from graph_agent.analysis.comparison import compare
    from graph_agent.analysis.questions import prove

    z3.set_param("memory_max_size", _MEGABYTES)
    # The texts have the servers of the tools only if there are conditions.
    old, new = (replace(PolicySnapshot.from_texts(*texts).policy, servers=servers) for *texts, servers in policies)
    try:
        proved = None
        if promises is not None:
            text, name, roles, time_zone = promises
            proved = prove(new, ConditionsFile(text, name, tuple(roles), time_zone), _QUESTION_SECONDS)
    except ConfigurationError as exc:
        return {"problem": str(exc)}
    changes = compare(old, new, _QUESTION_SECONDS)
    return {
        "changes": [{**one.to_json(), "call": str(one.example or "")} for one in changes],
        "promises": None if proved is None else [{**one.to_json(), "call": str(one.example or "")} for one in proved],
    }


if __name__ == "__main__":
    os.nice(_NICENESS)
    json.dump(_answer(**json.load(sys.stdin)), sys.stdout)
