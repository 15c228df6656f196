"""The proof of one decision: a program and a page check it without this package or a network, and refuse forgeries."""

from __future__ import annotations

import asyncio
import base64
import json
import string
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from graph_agent.db import Database
from graph_agent.policy.constitution import Constitution
from graph_agent.record.tree.leaves import commitment, leaf_entry
from graph_agent.record.tree.reading import DecisionProof, read_proof
from graph_agent.record.tree.tables import tree_leaves
from graph_agent.tlog.checkpoint import Checkpoint, format_proof
from graph_agent.tlog.merkle import Frontier, leaf_hash
from graph_agent.tlog.note import KeyType, SigningKey, sign
from tests.page.site import CHROMIUM, WAIT_MS, chromium
from tests.record.trees import LOG_KEY, WITNESS_KEY, LogFiller, running_witness, tree_of
from tests.tlog.go_check import check_with_go

KEYS = f"log {LOG_KEY.verifier}\nwitness {WITNESS_KEY.verifier}\n"
OTHER = SigningKey.generate("other.example/log", KeyType.LOG)
FORGER = SigningKey.generate(LOG_KEY.verifier.name, KeyType.LOG)

Forgery = Callable[[DecisionProof, DecisionProof], tuple[DecisionProof, str]]
"""Makes a forged proof and its trusted keys of the proofs of two decisions."""


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> list[DecisionProof]:
    """The proofs of two decisions of a log of five, which a witness has cosigned."""
    folder = tmp_path_factory.mktemp("proofs")

    async def make() -> list[DecisionProof]:
        log = Database.open(f"sqlite:///{folder / 'log.db'}")
        log.write_now(tree_leaves.metadata.create_all)
        names = await LogFiller.on(log).fill(5)
        async with running_witness(folder) as witness:
            tree = tree_of(log, witnesses=[witness])
            await tree.seal()
            assert await tree.push() == 1
        found = [await read_proof(log, name) for name in names[1:3]]
        await log.close()
        return found

    return asyncio.run(make())


def edit(proof: DecisionProof, old: str, new: str) -> DecisionProof:
    assert old in proof.proof
    return proof.replace(proof=proof.proof.replace(old, new, 1))


def lines(proof: DecisionProof) -> list[str]:
    return proof.proof.split("\n")


def without_line(proof: DecisionProof, start: str) -> DecisionProof:
    kept = [line for line in lines(proof) if not line.startswith(start)]
    assert len(kept) < len(lines(proof))
    return proof.replace(proof="\n".join(kept))


def flipped(proof: DecisionProof, position: int, byte: int = -1) -> DecisionProof:
    """Return the proof with one bit changed in the base64 of a line."""
    changed = lines(proof)
    head, _, last = changed[position].rpartition(" ")
    raw = bytearray(base64.b64decode(last))
    raw[byte] ^= 1
    changed[position] = f"{head}{' ' if head else ''}{base64.b64encode(raw).decode()}"
    return proof.replace(proof="\n".join(changed))


def with_hashes(proof: DecisionProof, change: Callable[[list[str]], list[str]]) -> DecisionProof:
    end = lines(proof).index("")
    return proof.replace(proof="\n".join([*lines(proof)[:2], *change(lines(proof)[2:end]), *lines(proof)[end:]]))


def not_canonical(hashes: list[str]) -> list[str]:
    """Return hashes of which the first is written in base64 that means the same bytes."""
    alphabet = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    last = alphabet[alphabet.index(hashes[0][-2]) + 1]
    changed = f"{hashes[0][:-2]}{last}="
    assert base64.b64decode(changed) == base64.b64decode(hashes[0])
    return [changed, *hashes[1:]]


def signed_alone(proof: DecisionProof, kind: str, key: SigningKey) -> DecisionProof:
    """Return a proof of a tree with one leaf, the record, signed by one key."""
    tree = Frontier()
    tree.push(leaf_hash(leaf_entry(kind, commitment(proof.salt, proof.record))))
    note = sign(Checkpoint(LOG_KEY.verifier.name, 1, tree.root()).to_text(), [key])
    return proof.replace(proof=format_proof(0, [], note))


def signed_by_forger(proof: DecisionProof, keys: str) -> tuple[DecisionProof, str]:
    """Return a proof that is signed by a key with the name of the log."""
    return signed_alone(proof, "decision", FORGER), keys


CUT = "\n\n"
FORGERIES: dict[str, Forgery] = {
    "another record": lambda one, other: (one.replace(record=other.record), KEYS),
    "an edited record": lambda one, _: (one.replace(record=one.record.replace("hello", "goodbye")), KEYS),
    "a space in the record": lambda one, _: (one.replace(record=f"{one.record} "), KEYS),
    "another salt": lambda one, other: (one.replace(salt=other.salt), KEYS),
    "a short salt": lambda one, _: (one.replace(salt="AAAA"), KEYS),
    "another index": lambda one, _: (edit(one, "index 1", "index 2"), KEYS),
    "an index outside of the tree": lambda one, _: (edit(one, "index 1", "index 9"), KEYS),
    "an index that is no number": lambda one, _: (edit(one, "index 1", "index 01"), KEYS),
    "the proof of another decision": lambda one, other: (one.replace(proof=other.proof), KEYS),
    "a changed hash": lambda one, _: (flipped(one, 2), KEYS),
    "a missing hash": lambda one, _: (one.replace(proof="\n".join([*lines(one)[:2], *lines(one)[3:]])), KEYS),
    "one hash too many": lambda one, _: (edit(one, "index 1\n", f"index 1\n{lines(one)[2]}\n"), KEYS),
    "another size": lambda one, _: (edit(one, "\n5\n", "\n6\n"), KEYS),
    "another root": lambda one, _: (flipped(one, lines(one).index("5") + 1), KEYS),
    "another origin": lambda one, _: (edit(one, "\ntasks.example/log\n", "\ntasks.example/other\n"), KEYS),
    "no signature of the log": lambda one, _: (without_line(one, "— tasks.example/log"), KEYS),
    "a changed signature of the log": lambda one, _: (flipped(one, len(lines(one)) - 3), KEYS),
    "no cosignature": lambda one, _: (without_line(one, "— auditor.example/w1"), KEYS),
    "a changed cosignature": lambda one, _: (flipped(one, len(lines(one)) - 2), KEYS),
    "a tree that another key has signed": lambda one, _: signed_by_forger(one, KEYS),
    "the key of another log": lambda one, _: (one, f"log {OTHER.verifier}\nwitness {WITNESS_KEY.verifier}\n"),
    "a key with the wrong id": lambda one, _: (one, KEYS.replace(LOG_KEY.verifier.id.hex(), "00000000")),
    "no key": lambda one, _: (one, ""),
    "an extension line": lambda one, _: (edit(one, f"{CUT}— ", f"\nmore{CUT}— "), KEYS),
    "a file that is no proof": lambda one, _: (one.replace(proof="nothing"), KEYS),
    "a record with other spaces": lambda one, _: (one.replace(record=json.dumps(json.loads(one.record))), KEYS),
    "a salt with a line break": lambda one, _: (one.replace(salt=f"{one.salt}\n"), KEYS),
    "two indexes": lambda one, _: (edit(one, "index 1", "index 1 2"), KEYS),
    "a negative index": lambda one, _: (edit(one, "index 1", "index -1"), KEYS),
    "a hexadecimal index": lambda one, _: (edit(one, "index 1", "index 0x1"), KEYS),
    "an index under another name": lambda one, _: (edit(one, "index 1", "Index 1"), KEYS),
    "another version": lambda one, _: (edit(one, "@v1", "@v2"), KEYS),
    "a byte order mark": lambda one, _: (one.replace(proof=f"\ufeff{one.proof}"), KEYS),
    "other line breaks": lambda one, _: (one.replace(proof=one.proof.replace("\n", "\r\n")), KEYS),
    "an empty line among the hashes": lambda one, _: (edit(one, lines(one)[2], f"{lines(one)[2]}\n"), KEYS),
    "hashes in another order": lambda one, _: (with_hashes(one, lambda hashes: hashes[::-1]), KEYS),
    "a hash with a space": lambda one, _: (with_hashes(one, lambda hashes: [f"{hashes[0]} ", *hashes[1:]]), KEYS),
    "a hash without its padding": lambda one, _: (with_hashes(one, lambda hashes: [hashes[0][:-1], *hashes[1:]]), KEYS),
    "a hash whose last bits are not zero": lambda one, _: (with_hashes(one, not_canonical), KEYS),
    "a size with a sign": lambda one, _: (edit(one, "\n5\n", "\n+5\n"), KEYS),
    "a control character in the origin": lambda one, _: (
        edit(one, "\ntasks.example/log\n", "\ntasks.example/log\0\n"),
        KEYS,
    ),
    "another checkpoint after the proof": lambda one, _: (
        one.replace(proof=one.proof + one.proof.partition(CUT)[2]),
        KEYS,
    ),
    "a time that the witness has not signed": lambda one, _: (flipped(one, len(lines(one)) - 2, 8), KEYS),
    "the signature of the log under another id": lambda one, _: (flipped(one, len(lines(one)) - 3, 0), KEYS),
    "a cosignature under another name": lambda one, _: (
        edit(one, "— auditor.example/w1", "— auditor.example/w2"),
        KEYS,
    ),
    "a second signature of the log, which is changed": lambda one, _: (
        edit(one, "— auditor", f"{lines(flipped(one, len(lines(one)) - 3))[-3]}\n— auditor"),
        KEYS,
    ),
    "an index that rewrites the line of the terminal": lambda one, _: (
        edit(one, "\nindex ", "\nindex \r\x1b[2KPROVED "),
        KEYS,
    ),
    "a line without a dash": lambda one, _: (edit(one, "— auditor", "- auditor"), KEYS),
    "a statement as a decision": lambda one, _: (signed_alone(one, "statement", LOG_KEY), f"log {LOG_KEY.verifier}\n"),
    "a cosignature as the signature of the log": lambda one, _: (
        signed_alone(one, "decision", WITNESS_KEY),
        f"log {LOG_KEY.verifier}\nwitness {WITNESS_KEY.verifier}\nquorum 0\n",
    ),
}


def run_program(folder: Path, proof: DecisionProof, keys: str, decision: str | None = None) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    for name, text in (proof.files(keys) | ({} if decision is None else {"decision.json": decision})).items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    # -I: neither this folder nor this package is on the path of the program.
    command = [sys.executable, "-I", "verify_proof.py", "decision.json", "decision.tlog-proof", "trusted_keys.txt"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_program_proves_a_decision_and_refuses_every_forgery(proofs: list[DecisionProof], tmp_path: Path) -> None:
    one, other = proofs
    proved = run_program(tmp_path / "real", one, KEYS)
    decision_id = json.loads(one.record)["header"]["decision_id"]
    assert proved.stdout.startswith(
        f"PROVED, with these keys: the record of decision {decision_id} is number 1 of 5 in tasks.example/log; "
        "witnessed by auditor.example/w1 at 20"
    )
    assert (proved.returncode, proved.stderr) == (0, "")
    for name, forge in FORGERIES.items():
        refused = run_program(tmp_path / "forged", *forge(one, other))
        assert (refused.returncode, refused.stdout, refused.stderr[:12]) == (1, "", "NOT PROVED: "), (name, refused)
        assert refused.stderr.count("\n") == 1, name
        assert refused.stderr[:-1].isprintable(), name


@pytest.mark.parametrize(
    "form",
    [
        '{{"salt": {salt}, "record": "another", "record": {record}}}',
        '{{"salt": {salt}, "record": {record}, "approved": true}}',
        "[{salt}, {record}]",
        '{{"salt": {salt}, "record": {record}}} {{}}',
        '{{"salt": 7, "record": {record}}}',
    ],
)
def test_the_program_refuses_a_file_that_says_more_than_is_proved(
    proofs: list[DecisionProof], tmp_path: Path, form: str
) -> None:
    text = form.format(salt=json.dumps(proofs[0].salt), record=json.dumps(proofs[0].record))
    refused = run_program(tmp_path, proofs[0], KEYS, text)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1), refused


def test_the_program_refuses_a_decision_whose_id_says_more_than_is_proved(proofs: list[DecisionProof], tmp_path: Path) -> None:
    record = json.loads(proofs[0].record)
    record["header"]["decision_id"] += " is number 1 of 9 in tasks.example/log; witnessed by auditor.example/w1 at 2026"
    signed = signed_alone(proofs[0].replace(record=json.dumps(record)), "decision", LOG_KEY)
    refused = run_program(tmp_path, signed, f"log {LOG_KEY.verifier}\n")
    assert (refused.returncode, refused.stdout, refused.stderr) == (1, "", "NOT PROVED: the id of the decision is no id\n")


def test_the_program_says_that_no_witness_has_signed_if_none_is_required(proofs: list[DecisionProof], tmp_path: Path) -> None:
    alone = run_program(tmp_path, without_line(proofs[0], "— auditor.example/w1"), f"log {LOG_KEY.verifier}\n")
    assert "UNANCHORED: no witness has signed" in alone.stdout
    short = run_program(tmp_path, proofs[0], f"{KEYS}quorum 2\n")
    assert short.stderr == "NOT PROVED: 1 of the 2 required witnesses have signed\n"


def test_the_program_imports_nothing_of_this_package(proofs: list[DecisionProof]) -> None:
    source = proofs[0].files(KEYS)["verify_proof.py"]
    assert "graph_agent" not in source.replace("graph-agent", "")


def test_go_proves_a_decision(proofs: list[DecisionProof], tmp_path: Path) -> None:
    proof = proofs[0]
    leaf = leaf_entry("decision", commitment(proof.salt, proof.record))
    head, _, note = proof.proof.partition(CUT)
    facts: dict[str, Any] = {
        "LogKey": str(LOG_KEY.verifier),
        "WitnessName": WITNESS_KEY.verifier.name,
        "WitnessID": int.from_bytes(WITNESS_KEY.verifier.id, "big"),
        "WitnessKey": WITNESS_KEY.verifier.public,
        "Note": note,
        "Index": 1,
        "Leaves": [leaf, leaf],
        "Roots": [],
        "Inclusion": head.split("\n")[2:],
        "Consistency": [],
    }
    only_proof = {**facts, "OnlyProof": True}
    assert check_with_go(tmp_path, only_proof) == "2 signatures, number 1 of 5"
    assert "invalid" in check_with_go(tmp_path, {**only_proof, "Leaves": [b"another", b"another"]})


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on the PATH")
    with chromium() as browser:
        yield browser


# The page has the checks of the program, whose forgeries make test runs, in another language.
@pytest.mark.slow
def test_the_saved_page_proves_a_decision_and_refuses_every_forgery(
    proofs: list[DecisionProof], browser: Browser, tmp_path: Path
) -> None:
    one, other = proofs
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))

    def verdict(proof: DecisionProof, keys: str, pasted: str | None = None) -> str:
        file = tmp_path / "decision.html"
        file.write_text(proof.files(keys)["decision.html"], encoding="utf-8")
        page.goto(file.as_uri())
        expect(page.locator("#verdict")).not_to_have_text("Checking …")
        if pasted is not None:
            page.evaluate("document.getElementById('verdict').textContent = 'Checking …'")
            page.fill("#trusted-keys", pasted)
            expect(page.locator("#verdict")).not_to_have_text("Checking …")
        return page.inner_text("#verdict")

    assert verdict(one, KEYS) == "Proved, with these keys"
    assert "auditor.example/w1 had seen this tree at 20" in page.inner_text("#steps")
    assert json.loads(page.text_content("#record") or "") == json.loads(one.record)
    # The keys that the reader pastes decide, not those of the file.
    assert verdict(one, "", KEYS) == "Proved, with these keys"
    assert verdict(one, KEYS, f"log {FORGER.verifier}\nwitness {WITNESS_KEY.verifier}") == "Not proved"
    forged, own_keys = signed_by_forger(one, f"log {FORGER.verifier}\n")
    assert verdict(forged, own_keys) == "Signed by the log, with this key; no witness has seen it"
    assert verdict(forged, own_keys, KEYS) == "Not proved"
    for name, forge in FORGERIES.items():
        assert (verdict(*forge(one, other)), page.text_content("#record")) == ("Not proved", ""), name
    # The record is shown as it is: with the digits that JavaScript would round, and with no character that reorders a line.
    record = {"amount": 2**53 + 1, "message": "pay \u202e001"}
    assert verdict(signed_alone(one.replace(record=json.dumps(record)), "decision", LOG_KEY), f"log {LOG_KEY.verifier}\n")
    assert json.loads(page.text_content("#record") or "") == {"amount": 2**53 + 1, "message": "pay ‹U+202E›001"}
    # The texts that the record names are shown only as they were recorded.
    name = json.loads(one.record)["header"]["constitution"]
    for text, found in ((Constitution.load().text, "The constitution"), ("another", "Not proved")):
        html = one.files(KEYS, {name: text, "unnamed": "not shown"})["decision.html"]
        (tmp_path / "texts.html").write_text(html, encoding="utf-8")
        page.goto((tmp_path / "texts.html").as_uri())
        expect(page.locator("summary, #verdict", has_text=found)).to_have_count(1)
    # A record cannot end the script that contains it.
    hostile = one.replace(proof=f"{one.proof}</script><script>document.title = 'run'</script>")
    assert (verdict(hostile, KEYS), page.title()) == ("Not proved", "A decision, with its proof")
    assert {url.partition(":")[0] for url in requests} == {"file"}
    context.close()
