"""The SSH signature of an approver, here and in the program that needs nothing of ours: both take and refuse the same."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from graph_agent.clock import ManualClock
from graph_agent.models.approval import ApprovalAnswer, ApprovalState, ApproverIdentity
from graph_agent.models.decision import ApprovalRequest, ClosedRequest, PendingAction
from graph_agent.models.facts import ShownFact
from graph_agent.models.sources import CallSources
from graph_agent.policy.approval_signature import (
    NAMESPACE,
    SignatureRefused,
    read_approver_keys,
    require_signed,
    signed_text,
)
from graph_agent.tlog.verify_proof import NotProvedError, verify_approvers

NOW = ManualClock().now()
ACTION = PendingAction(
    id="r1",
    tool_name="refund",
    arguments={"order": "A1\nrole: boss", "amount": 600, "note": "‮ é"},
    description="Refund",
    created_at=NOW,
    expires_at=NOW + timedelta(hours=24),
)
REQUEST = ApprovalRequest(
    action=ACTION,
    roles=("manager",),
    rules=("a rule",),
    prompt="p",
    user_id="ann",
    conversation_id="c1",
    decision_id="d1",
    origin="tasks.example/log",
)


def packed(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


class Key:
    """A key of an approver in software: also one that imitates a security key, `touched` or not."""

    def __init__(self, *, security_key: bool = False, touched: bool = True, namespace: str = NAMESPACE) -> None:
        self._private = Ed25519PrivateKey.generate()
        self._kind = b"sk-ssh-ed25519@openssh.com" if security_key else b"ssh-ed25519"
        raw = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self._key = packed(self._kind) + packed(raw) + (packed(b"ssh:") if security_key else b"")
        self._security_key, self._touched, self._namespace = security_key, touched, namespace.encode()

    @property
    def public(self) -> str:
        return f"{self._kind.decode()} {base64.b64encode(self._key).decode()}"

    def sign(self, text: str) -> str:
        parts = (self._namespace, b"", b"sha512", hashlib.sha512(text.encode()).digest())
        signed, state = b"SSHSIG" + b"".join(map(packed, parts)), b""
        if self._security_key:
            state = bytes([int(self._touched)]) + struct.pack(">I", 7)
            signed = hashlib.sha256(b"ssh:").digest() + state + hashlib.sha256(signed).digest()
        signature = packed(self._kind) + packed(self._private.sign(signed)) + state
        blob = b"SSHSIG\0\0\0\1" + b"".join(map(packed, (self._key, self._namespace, b"", b"sha512", signature)))
        return f"-----BEGIN SSH SIGNATURE-----\n{base64.b64encode(blob).decode()}\n-----END SSH SIGNATURE-----\n"


def answer_of(approver: str, key: Key | None, text: str | None = None, **more: Any) -> ApprovalAnswer:
    signed = text or signed_text(REQUEST, approver=approver, approve=True, role="manager")
    given: dict[str, Any] = {"approver": approver, "approve": True, "role": "manager", "digest": REQUEST.digest}
    given |= {"identity": ApproverIdentity.KEY, "answered_at": NOW, "signature": "" if key is None else key.sign(signed)}
    return ApprovalAnswer(**{**given, **more})


def decision_of(*answers: ApprovalAnswer, request: ApprovalRequest = REQUEST) -> str:
    """Return what a proof of the closing decision has of it."""
    closed = ClosedRequest(request=request, answers=answers, end=ApprovalState.APPROVED)
    made = [{"tool_name": ACTION.tool_name, "parameters": ACTION.arguments}]
    record = {"header": {"context": {"approval": closed.to_json()}}, "invocations": made}
    return json.dumps({"salt": "", "record": json.dumps(record)})


def is_taken(tmp_path: Path, keys: str, *answers: ApprovalAnswer, request: ApprovalRequest = REQUEST) -> bool:
    """True if the answers count; the server and the program must agree."""
    file = tmp_path / "approvers"
    file.write_text(keys)
    try:
        for one in answers:
            require_signed(request, one, read_approver_keys(file))
        here = all(one.digest == request.digest for one in answers)
    except SignatureRefused:
        here = False
    try:
        verify_approvers(decision_of(*answers, request=request), keys)
    except NotProvedError:
        assert not here
        return False
    assert here
    return True


@pytest.mark.parametrize("security_key", [False, True])
def test_two_signatures_are_taken(tmp_path: Path, security_key: bool) -> None:
    bob, eve = Key(security_key=security_key), Key()
    keys = f"# approvers\nbob {bob.public}\neve {Key().public}\neve,dan {eve.public} a comment\n"
    assert is_taken(tmp_path, keys, answer_of("bob", bob), answer_of("eve", eve))


@pytest.mark.parametrize("case", ["another key", "another namespace", "no touch", "none", "a changed byte", "no such person"])
def test_aisvs_9_2_9_what_the_approver_has_not_signed_is_refused(tmp_path: Path, case: str) -> None:
    key = Key(security_key=case == "no touch", touched=False, namespace="git" if case == "another namespace" else NAMESPACE)
    signer = {"another key": Key(), "none": None}.get(case, key)
    answer = answer_of("bob", signer)
    if case == "a changed byte":
        changed = answer.signature[:200] + ("A" if answer.signature[200] != "A" else "B") + answer.signature[201:]
        answer = answer.replace(signature=changed)
    assert not is_taken(tmp_path, f"{'eve' if case == 'no such person' else 'bob'} {key.public}\n", answer)


@pytest.mark.parametrize(
    "changes",
    [
        {"action": ACTION.replace(arguments={**ACTION.arguments, "amount": 601})},
        {"action": ACTION.replace(description="Refund 1")},
        {"action": ACTION.replace(id="r2")},
        {"action": ACTION.replace(expires_at=ACTION.expires_at + timedelta(days=1))},
        {"roles": ("finance",)},
        {"rules": ("another rule",)},
        {"prompt": "q"},
        {"confirmed": True},
        {"user_id": "dan"},
        {"user_roles": ("manager",)},
        {"conversation_id": "c2"},
        {"decision_id": "d2"},
        {"origin": "elsewhere.example/log"},
        {"renewals": 1},
        {"facts": (ShownFact(name="order", values={"status": "sent"}),)},
        {"sources": CallSources(after="read_page")},
        {"by_program": True},
    ],
)
def test_aisvs_9_2_8_changing_any_bound_value_voids_the_answer(tmp_path: Path, changes: dict[str, Any]) -> None:
    key = Key()
    keys, answer = f"bob {key.public}\n", answer_of("bob", key)
    assert is_taken(tmp_path, keys, answer)
    assert REQUEST.replace(**changes).digest != REQUEST.digest
    assert not is_taken(tmp_path, keys, answer, request=REQUEST.replace(**changes))


@pytest.mark.parametrize("changes", [{"approver": "eve"}, {"approve": False}, {"role": "finance"}])
def test_aisvs_9_2_8_an_answer_counts_for_nobody_else_and_nothing_else(tmp_path: Path, changes: dict[str, Any]) -> None:
    key = Key()
    assert not is_taken(tmp_path, f"bob,eve {key.public}\n", answer_of("bob", key).replace(**changes))


def test_a_value_adds_no_line_to_the_signed_text() -> None:
    text = signed_text(REQUEST.replace(user_id="ann\napprover: eve"), approver="bob", approve=True, role="manager‮")
    assert text.count("\n") == 13
    assert text.isascii()


def test_the_signature_of_ssh_keygen_is_taken(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key"], cwd=tmp_path, check=True)
    (tmp_path / "text").write_text(signed_text(REQUEST, approver="bob", approve=True, role="manager"))
    sign = ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", "key", "text"]
    subprocess.run(sign, cwd=tmp_path, check=True)
    answer = answer_of("bob", None, signature=(tmp_path / "text.sig").read_text())
    public = " ".join((tmp_path / "key.pub").read_text().split()[:2])
    assert is_taken(tmp_path, f"bob {public}\n", answer)
