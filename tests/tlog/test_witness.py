"""The witness: the public scenario of litewitness, races, and the command."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from graph_agent.api.witness import witness_app
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.tlog.checkpoint import Checkpoint, hash_lines
from graph_agent.tlog.merkle import EMPTY_ROOT, Frontier, consistency_proof, leaf_hash
from graph_agent.tlog.note import KeyType, SigningKey, VerifierKey, open_note, sign
from graph_agent.tlog.witness import Witness, open_witness_state, origin_digest
from tests import fork_server
from tests.serving import address_of
from tests.tlog.test_merkle import nodes_of

# The log and the requests of FiloSottile/torchwood (cmd/litewitness/testdata, tests of add-checkpoint).
SIGSUM = "sigsum.org/v1/tree/4d6d8825a6bb689d459628312889dfbb0bcd41b5211d9e1ce768b0ff0309e562"
SIGSUM_KEY = bytes.fromhex("ffdc2d4d98e4124d3feaf788c0c2f9abfd796083d1f0495437f302ec79cf100f")
AT_1 = (
    f"{SIGSUM}\n1\nKgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n"
    f"— {SIGSUM} UgIom7fPZTqpxWWhyjWduBvTvGVqsokMbqTArsQilegKoFBJQjUFAmQ0+YeSPM3wfUQMFSzVnnNuWRTYrajXpNUbIQY=\n"
)
AT_3 = (
    f"{SIGSUM}\n3\nRcCI1Nk56ZcSmIEfIn0SleqtV7uvrlXNccFx595Iwl0=\n\n"
    f"— {SIGSUM} UgIom2VbtIcdFbwFAy1n7s6IkAxIY6J/GQOTuZF2ORV39d75cbAj2aQYwyJre36kezNobZs4SUUdrcawfAB8WVrx6go=\n"
)
AT_5 = (
    f"{SIGSUM}\n5\nQrtXrQZCCvpIgsSmOsah7HdICzMLLyDfxToMql9WTjY=\n\n"
    f"— {SIGSUM} UgIomw/EOJmWi0i1FQsOj+etB7F8IccFam/jgd6wzRns4QPVmyEZtdvl1U2KEmLOZ/ASRcWJi0tW90dJWAShei7sDww=\n"
)
FROM_1_TO_3 = "KgEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\nKgIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
FROM_1_TO_5 = (
    "KgEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n+fUDV+k970B4I3uKrqJM4aP1lloPZP8mvr2Z4wRw2LI=\n"
    "KgQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
)
FROM_3_TO_5 = (
    "KgIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\nKgMAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
    "wgiIFdZfYNv6WU1OllBKsWnLYIS/DBMqt8Uh/S4OukE=\nKgQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
)
LITEWITNESS = [
    ("old 0", "", AT_1, 200, "— example.com/witness "),
    ("old 1", FROM_1_TO_3, AT_3.replace("6go=", "6gx="), 403, "base64"),
    ("old 1", FROM_1_TO_3, AT_3.replace("6go=", "6gs="), 403, "is invalid"),
    ("old 1", FROM_1_TO_3, AT_3.replace("e562", "e563"), 404, "unknown"),
    ("old 1", "", AT_3, 422, "consistency proof"),
    ("old 1", FROM_1_TO_3.replace("KgIAAAAA", "KgIAAAAB"), AT_3, 422, "consistency proof"),
    ("old 1", FROM_1_TO_3, AT_3, 200, "— example.com/witness "),
    ("old 1", FROM_1_TO_5, AT_5, 409, "3\n"),
    ("old 3", FROM_3_TO_5, AT_5, 200, "— example.com/witness "),
    ("old 0", "", AT_5, 409, "5\n"),
    ("old 6", "", AT_5, 400, "larger"),
    ("new 5", "", AT_5, 400, "malformed"),
    ("old 05", "", AT_5, 400, "malformed"),
    ("old 5", "KgEA\n", AT_5, 400, "malformed"),
    ("old 5", "", AT_5, 200, "— example.com/witness "),
]


@pytest.fixture
def log() -> SigningKey:
    return SigningKey.generate("tasks.example/log", KeyType.LOG)


@pytest.fixture
async def witness(tmp_path: Path, log: SigningKey, clock: ManualClock) -> AsyncIterator[httpx.AsyncClient]:
    database = open_witness_state(Database.open(f"sqlite:///{tmp_path / 'witness.db'}"))
    key = SigningKey.generate("example.com/witness", KeyType.COSIGNATURE)
    logs = [VerifierKey(SIGSUM, KeyType.LOG, SIGSUM_KEY), log.verifier]
    app = witness_app(Witness(database, key, logs, clock=clock))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://witness") as client:
        yield client
    await database.close()


async def add(witness: httpx.AsyncClient, old: str, proof: str, note: str) -> httpx.Response:
    return await witness.post("/add-checkpoint", content=f"{old}\n{proof}\n{note}".encode())


async def test_the_answers_are_those_of_litewitness_and_of_the_specification(witness: httpx.AsyncClient) -> None:
    for old, proof, note, status, text in LITEWITNESS:
        answer = await add(witness, old, proof, note)
        assert (answer.status_code, text in answer.text) == (status, True), (old, answer.text)
        if status == 409:
            assert answer.headers["content-type"].startswith("text/x.tlog.size")


async def test_the_last_cosigned_checkpoint_is_served_and_survives_what_is_refused(
    witness: httpx.AsyncClient, log: SigningKey, clock: ManualClock
) -> None:
    path = f"/{origin_digest(log.verifier.name)}/checkpoint"
    assert path == f"/{hashlib.sha256(b'tasks.example/log').hexdigest()}/checkpoint"
    assert (await witness.get(path)).status_code == 404
    tree = Tree(log, 5)
    assert (await add(witness, "old 0", "", tree.note(5))).status_code == 200
    clock.advance(seconds=60)
    line = (await add(witness, "old 5", "", tree.note(5))).text
    forked = Tree(log, 5, "forked")
    assert (await add(witness, "old 5", "", forked.note(5))).status_code == 409
    assert (await add(witness, "old 5", forked.proof(5, 5), Tree(log, 9, "forked").note(9))).status_code == 422
    note = (await witness.get(path)).text
    assert note == f"{tree.note(5)}{line}"
    assert list(open_note(note, [log.verifier])[1]) == [log.verifier]


async def test_a_log_that_begins_empty_may_grow(witness: httpx.AsyncClient, log: SigningKey) -> None:
    tree = Tree(log, 5)
    empty = sign(Checkpoint(log.verifier.name, 0, EMPTY_ROOT).to_text(), [log])
    wrong = sign(Checkpoint(log.verifier.name, 0, bytes(32)).to_text(), [log])
    assert (await add(witness, "old 0", "", wrong)).status_code == 409
    assert (await add(witness, "old 0", "", empty)).status_code == 200
    assert (await add(witness, "old 0", hash_lines([bytes(32)]), tree.note(5))).status_code == 422
    assert (await add(witness, "old 0", "", tree.note(5))).status_code == 200


async def test_of_several_contradicting_checkpoints_at_once_one_is_cosigned(
    witness: httpx.AsyncClient, log: SigningKey
) -> None:
    trees = [Tree(log, 4, str(n)) for n in range(8)]
    answers = await asyncio.gather(*(add(witness, "old 0", "", tree.note(4)) for tree in trees))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7


async def test_a_request_that_is_too_large_or_not_text_is_refused(witness: httpx.AsyncClient, log: SigningKey) -> None:
    assert (await witness.post("/add-checkpoint", content=b"x" * 65_537)).status_code == 413
    assert (await witness.post("/add-checkpoint", content=b"\xff\n\nlog")).status_code == 400
    extended = sign(f"{log.verifier.name}\n0\n{'A' * 43}=\nan extension\n", [log])
    assert (await add(witness, "old 0", "", extended)).status_code == 400


def test_the_command_keeps_its_key_and_its_state(tmp_path: Path, log: SigningKey) -> None:
    environment = {**os.environ, "GRAPH_AGENT_HOME": str(tmp_path / "home")}
    tree = Tree(log, 9)
    keys = set()
    command = [
        fork_server.graph_agent(),
        "witness",
        "--listen",
        "127.0.0.1:0",
        "--log",
        str(log.verifier),
        "--name",
        "w.example/1",
    ]
    for old, size, status in ((0, 4, 200), (0, 9, 409), (4, 9, 200)):
        output = tmp_path / f"stderr-{old}-{size}"
        with output.open("wb") as stderr, subprocess.Popen(command, env=environment, stderr=stderr) as server:
            try:
                url = address_of(server, output)
                body = f"old {old}\n{tree.proof(old, size)}\n{tree.note(size)}"
                answer = httpx.post(f"{url}/add-checkpoint", content=body.encode(), timeout=60)
                assert answer.status_code == status
                key = VerifierKey.parse(output.read_text().partition("witness key: ")[2].partition("\n")[0])
                keys.add(key)
                if status == 200:
                    assert list(open_note(f"{tree.note(size)}{answer.text}", [key])[1]) == [key]
            finally:
                server.send_signal(signal.SIGTERM)
    assert [key.name for key in keys] == ["w.example/1"]


class Tree:
    """A log whose leaves are `salt` and a number."""

    def __init__(self, key: SigningKey, size: int, salt: str = "") -> None:
        self.key = key
        self.leaves = [leaf_hash(f"{salt}{n}".encode()) for n in range(size)]

    def note(self, size: int) -> str:
        tree = Frontier()
        for leaf in self.leaves[:size]:
            tree.push(leaf)
        return sign(Checkpoint(self.key.verifier.name, size, tree.root()).to_text(), [self.key])

    def proof(self, old: int, new: int) -> str:
        return hash_lines(consistency_proof(nodes_of(self.leaves), old, new))
