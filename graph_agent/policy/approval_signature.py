"""The SSH signature of an approver: made with `ssh-keygen -Y sign -n graph-agent-approval`, checked without it.

With the approvers' own keys a server cannot make an answer that it accepts. The signed text says what was approved, in which
request of which log, and by which answer. Keys are those of an `allowed_signers` file of OpenSSH: ed25519, also on a security
key, which must have been touched.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from graph_agent.errors import ConfigurationError
from graph_agent.models.approval import ApprovalAnswer
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import ApprovalRequest

NAMESPACE = "graph-agent-approval"
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_ED25519, _SECURITY_KEY = b"ssh-ed25519", b"sk-ssh-ed25519@openssh.com"
_KINDS = {kind.decode(): kind for kind in (_ED25519, _SECURITY_KEY)}

ApproverKeys = Mapping[str, Sequence[bytes]]
"""The keys of each approver, by user id."""


class SignatureRefused(Exception):  # noqa: N818 (an answer, not an error)
    """The reason why a signature is not that of the approver."""


def signed_text(request: ApprovalRequest, *, approver: str, approve: bool, role: str) -> str:
    """Return the text that an approver signs, with the whole call: one line for each fact, and none that a value could add.

    It is ASCII. Any other character is escaped as in Python, also one that is invisible or turns the text around.
    """
    facts = {
        "origin": request.origin,
        "request": request.id,
        "digest": request.digest,
        "requester": request.user_id,
        "conversation": request.conversation_id,
        "decision": request.decision_id,
        "tool": request.action.tool_name,
        "arguments": canonical_json(request.action.arguments),
        # As the record has it, so that a verifier need not know how times are written.
        "expires": str(request.to_json()["action"]["expires_at"]),
        "answer": "approve" if approve else "deny",
        "approver": approver,
        "role": role,
    }
    lines = [f"{name}: {value.encode('unicode_escape').decode('ascii')}" for name, value in facts.items()]
    return "\n".join(["graph-agent/approval/v1", *lines, ""])


def read_approver_keys(path: Path) -> ApproverKeys:
    """Return the keys of an `allowed_signers` file. Raises `ConfigurationError` with the number of a line that is not used."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"the file of the approvers' keys {path} cannot be read") from None
    return parse_approver_keys(text, path)


def parse_approver_keys(text: str, where: Path | str) -> ApproverKeys:
    """Return the keys of the text of an `allowed_signers` file; `where` names it in messages. Raises `ConfigurationError`."""
    keys: dict[str, list[bytes]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        # Options, such as a time of validity, would be ignored here, so a line that has one is refused.
        if len(words) < 3 or words[1] not in _KINDS:
            how = "write: USER ssh-ed25519 KEY (or sk-ssh-ed25519@openssh.com), without options"
            raise ConfigurationError(f"the file of the approvers' keys {where}, line {number}: {how}")
        try:
            key = base64.b64decode(words[2], validate=True)
            if _string(key, 0)[0] != _KINDS[words[1]]:
                raise ValueError
        except ValueError:
            raise ConfigurationError(f"the file of the approvers' keys {where}, line {number}: it has no such key") from None
        for user in words[0].split(","):
            keys.setdefault(user, []).append(key)
    if not keys:
        raise ConfigurationError(f"the file of the approvers' keys {where} has no key")
    return keys


def require_signed(request: ApprovalRequest, answer: ApprovalAnswer, keys: ApproverKeys) -> None:
    """Raise `SignatureRefused` unless the approver has signed the answer with one of the approver's keys."""
    text = signed_text(request, approver=answer.approver, approve=answer.approve, role=answer.role)
    if not answer.signature:
        raise SignatureRefused("it has no signature, which the installation asks for")
    if answer.approver not in keys:
        raise SignatureRefused("the installation knows no key of this approver")
    why = ""
    for key in keys[answer.approver]:
        try:
            verify(key, answer.signature, text.encode())
        except (ValueError, InvalidSignature) as exc:
            why = str(exc) or "it is the signature of another text"
        else:
            return
    raise SignatureRefused(f"its signature is not valid: {why}")


def verify(key: bytes, armored: str, message: bytes) -> None:
    """Raise `ValueError` or `InvalidSignature` unless `armored` (SSHSIG) is the signature of `message` by this public key."""
    lines = armored.strip().splitlines()
    if len(lines) < 3 or lines[0] != _BEGIN or lines[-1] != _END:
        raise ValueError("it is no SSH signature")
    blob = base64.b64decode("".join(lines[1:-1]), validate=True)
    if blob[:10] != b"SSHSIG\0\0\0\1":
        raise ValueError("it is of another version")
    signer, at = _string(blob, 10)
    namespace, at = _string(blob, at)
    reserved, at = _string(blob, at)
    algorithm, at = _string(blob, at)
    signature, at = _string(blob, at)
    if at != len(blob) or namespace != NAMESPACE.encode() or algorithm not in (b"sha256", b"sha512"):
        raise ValueError("it was made for another purpose")
    if signer != key:
        raise ValueError("it was made with another key")
    hashed = hashlib.new(algorithm.decode(), message).digest()
    signed = b"SSHSIG" + b"".join(map(_packed, (namespace, reserved, algorithm, hashed)))
    kind, at = _string(key, 0)
    raw, at = _string(key, at)
    name, end = _string(signature, 0)
    value, end = _string(signature, end)
    if name != kind:
        raise ValueError("it was made with another kind of key")
    if kind == _SECURITY_KEY:
        application, at = _string(key, at)
        state, end = signature[end : end + 5], end + 5
        if len(state) != 5 or not state[0] & 1:
            raise ValueError("the security key was not touched")
        signed = hashlib.sha256(application).digest() + state + hashlib.sha256(signed).digest()
    elif kind != _ED25519:
        raise ValueError("this kind of key is not accepted")
    if end != len(signature) or at != len(key):
        raise ValueError("it has trailing bytes")
    Ed25519PublicKey.from_public_bytes(raw).verify(value, signed)


def _string(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the text at a position of SSH's binary format, and the position after it. Raises `ValueError`."""
    if at + 4 > len(data):
        raise ValueError("it is too short")
    (size,) = struct.unpack_from(">I", data, at)
    end = at + 4 + size
    if end > len(data):
        raise ValueError("it is too short")
    return data[at + 4 : end], end


def _packed(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data
