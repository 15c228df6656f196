"""Signed notes and checkpoints, against the published examples of Go and C2SP."""

from __future__ import annotations

import pytest

from graph_agent.tlog.checkpoint import Checkpoint, decimal, parse_hashes
from graph_agent.tlog.note import KeyType, NoteError, SigningKey, VerifierKey, open_note, sign

# golang.org/x/mod/sumdb/note (note_test.go).
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETER_SIGNS = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
ENOCH = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
PETERS = "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
ENOCHS = "— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n"
# c2sp.org/signed-note.
EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE = (
    "This is an example message.\n\n"
    "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)
# A checkpoint of sum.golang.org, as litewitness tests have it (cmd/litewitness/testdata/sumdb.txt).
SUMDB_KEY = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"
SUMDB = (
    "go.sum database tree\n35225469\nvt5T6GaLCXvyHFl9VUvvItR43XZxfLgftEcTyO3eJCQ=\n\n"
    "— sum.golang.org Az3grpukl5AXaVfYkLiDGORx/DN2nlcS5kZHR5uYOBV2KA2HgXpD+gu9HHONebHLAyaKbbTM75QTtPydhKCExixSfwQ=\n"
)


def test_notes_of_go_are_signed_and_opened_alike() -> None:
    peter, enoch = VerifierKey.parse(PETER), VerifierKey.parse(ENOCH)
    signing = SigningKey.parse(PETER_SIGNS)
    assert sign(TEXT, [signing]) == f"{TEXT}\n{PETERS}"
    assert (signing.to_text(), str(peter), signing.verifier) == (PETER_SIGNS, PETER, peter)
    note = f"{TEXT}\n{PETERS}{ENOCHS}"
    assert open_note(note, [peter]) == (TEXT, {peter: 0})
    assert open_note(note, [peter, enoch]) == (TEXT, {peter: 0, enoch: 0})
    assert "PRIVATE" not in repr(signing)


def test_the_examples_of_the_specifications_open() -> None:
    key = VerifierKey.parse(EXAMPLE_KEY)
    assert open_note(EXAMPLE, [key]) == ("This is an example message.\n", {key: 0})
    # The key of this log has another name than the log, which no log of ours may have.
    text, _ = open_note(SUMDB, [VerifierKey.parse(SUMDB_KEY)])
    assert Checkpoint.parse(text).size == 35225469
    with pytest.raises(NoteError, match="known key"):
        Checkpoint.open(SUMDB, [VerifierKey.parse(SUMDB_KEY)])


@pytest.mark.parametrize(
    ("note", "why"),
    [
        (f"{TEXT}\n{PETERS.replace('x08go/ZJ', 'x08go/ZK')}", "invalid"),
        (f"{TEXT.replace('you', 'you ')}\n{PETERS}", "invalid"),
        (f"{TEXT}\n{ENOCHS}", "known key"),
        (f"{TEXT}\n{PETERS * 101}", "not a signed note"),
        (f"{TEXT}\n{PETERS}"[:-1], "not a signed note"),
        (f"{TEXT}{PETERS}", "not a signed note"),
        (f"{TEXT}\n{PETERS}\t\n", "not a signed note"),
        (f"{TEXT}\n{PETERS}".replace("\n", "\r\n"), "not a signed note"),
        (TEXT, "not a signed note"),
        (f"{TEXT}\n", "not a signed note"),
        (f"\ud800{TEXT}\n{PETERS}", "UTF-8"),
        (f"{TEXT}\n{PETERS.replace('— ', '- ')}", "malformed"),
        (f"{TEXT}\n{PETERS.replace('PeterNeumann', 'Peter+Neumann')}", "malformed"),
        (f"{TEXT}\n— PeterNeumann x08g\n", "malformed"),
        (f"{TEXT}\n— PeterNeumann x08go/ZJ!!\n", "base64"),
        (f"{TEXT}\n— PeterNeumann x08go/ZK=\n", "base64"),
    ],
)
def test_a_note_that_is_malformed_or_not_signed_is_refused(note: str, why: str) -> None:
    with pytest.raises(NoteError, match=why):
        open_note(note, [VerifierKey.parse(PETER)])


def test_no_part_and_no_change_of_a_key_is_a_key() -> None:
    for text, parse in ((PETER, VerifierKey.parse), (PETER_SIGNS, SigningKey.parse)):
        parts = {text[start:end] for start in range(len(text)) for end in range(start, len(text) + 1)} - {text}
        changed = {f"{text[:n]}{chr(ord(text[n]) + 1)}{text[n + 1 :]}" for n in range(len(text))}
        for wrong in (parts if parse is VerifierKey.parse else set()) | changed:
            with pytest.raises(NoteError):
                parse(wrong)
    for name in ("", "two words", "a+b", "line\nbreak"):
        with pytest.raises(NoteError, match="name"):
            SigningKey.generate(name, KeyType.LOG)


def test_a_cosignature_signs_the_time_too() -> None:
    witness = SigningKey.generate("witness.example/w1", KeyType.COSIGNATURE)
    checkpoint = Checkpoint("tasks.example/log", 5, bytes(32))
    line = witness.signature_line(checkpoint.to_text(), 1679315147)
    assert Checkpoint.open(f"{checkpoint.to_text()}\n{line}", [witness.verifier]) == (
        checkpoint,
        {witness.verifier: 1679315147},
    )
    # The time is in the signed bytes: another one, or the same bytes read as a plain signature, is invalid.
    as_log = VerifierKey("tasks.example/log", KeyType.LOG, witness.verifier.public)
    assert witness.verifier.signed_at(checkpoint.to_text().encode(), bytes(72)) is None
    assert as_log.signed_at(checkpoint.to_text().encode(), bytes(64)) is None


def test_the_key_of_one_log_does_not_sign_for_another() -> None:
    key = SigningKey.generate("tasks.example/log", KeyType.LOG)
    other = Checkpoint("notes.example/log", 5, bytes(32))
    with pytest.raises(NoteError, match="known key"):
        Checkpoint.open(sign(other.to_text(), [key]), [key.verifier])


@pytest.mark.parametrize(
    "text",
    [
        "log\n5\n",
        "\n5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "log\n05\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "log\n-5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "log\n5\nAAAA\n",
        "log\n5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\nan extension\n",
        "log\n5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    ],
)
def test_a_malformed_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(NoteError):
        Checkpoint.parse(text)


def test_numbers_and_hashes_are_strict() -> None:
    assert [decimal(text) for text in ("0", "7", str(2**63 - 1))] == [0, 7, 2**63 - 1]
    for wrong in ("", "00", "+1", " 1", "1_0", "²", str(2**63), "9" * 5000):
        with pytest.raises(NoteError):
            decimal(wrong)
    with pytest.raises(NoteError, match="too many"):
        parse_hashes(["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="] * 64)
