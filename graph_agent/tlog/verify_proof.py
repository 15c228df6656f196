#!/usr/bin/env python3
"""Check that a decision is in a log: python verify_proof.py DECISION.json PROOF.tlog-proof TRUSTED_KEYS [--approvers FILE]
                                    [--plan AGREED.json AGREED.tlog-proof] [--rules FOLDER]

It needs Python and the package `cryptography`, and imports nothing else. TRUSTED_KEYS has one line for each key:

    log KEY          the key of the log (NAME+ID+BASE64; the name is the log's origin)
    witness KEY      the key of a witness
    quorum NUMBER    how many of the witnesses must have signed (without this line: all)

With --approvers it also checks that the people who approved the call of the decision have signed that. FILE has a line
`USER ssh-ed25519 KEY` for each of their keys, as the allowed_signers of OpenSSH. Get it from those people.

With --plan it also checks the calls that ran without a question under a plan. AGREED is the decision in which the user agreed
to it; it is in the same log, and may be the same decision. Each call has to be within its line and its time. With --rules too,
no statement of the log may revoke the plan before one of them, by the times in the log. Only the whole conversation shows that
a value from a result was not known before.

With --rules it also checks under which rules the decision was made, and whether they were in force when it was closed. FOLDER
has every leaf of the log, every statement of the log about itself, and the rule sets that were in force.

Get the keys from the operator's site, from your contract and from your own witness, not from the one who gives you the proof.
DECISION.json is {"salt": BASE64, "record": TEXT}; the log's leaf commits to SHA-256(salt, record). The formats are
c2sp.org/tlog-proof, c2sp.org/tlog-checkpoint and c2sp.org/tlog-cosignature. The exit code is 0 if the decision is proved.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, Sequence, Tuple  # noqa: UP035 (an auditor's Python may be older than ours)

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

TYPES = {"log": 1, "witness": 4}
Record = Dict[str, Any]  # noqa: UP006 (as above)
Keys = Dict[Tuple[str, str, bytes], Ed25519PublicKey]  # noqa: UP006 (by type, name and id)


class NotProvedError(Exception):
    """The reason why the decision is not proved."""


def require(condition: object, why: str) -> None:
    if not condition:
        raise NotProvedError(why)


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def decode(text: str) -> bytes:
    data = base64.b64decode(text, validate=True)
    require(base64.b64encode(data).decode() == text, "it contains base64 that is not canonical")
    return data


def number(text: str) -> int:
    require(text.isascii() and text.isdigit() and text == str(int(text)), f"malformed number: {text!r}")
    return int(text)


def read_trusted_keys(text: str) -> tuple[Keys, int]:
    """Return the keys, and the number of witnesses that must have signed."""
    keys: Keys = {}
    quorum = None
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        word, value = line.split()
        if word == "quorum":
            quorum = number(value)
            continue
        name, key_id, key = value.split("+", 2)
        raw = decode(key)
        require(len(raw) == 33 and raw[0] == TYPES.get(word), f"not the key of a {word}: {value}")
        require(sha256(name.encode(), b"\n", raw)[:4].hex() == key_id, f"the id of a key is wrong: {value}")
        keys[word, name, bytes.fromhex(key_id)] = Ed25519PublicKey.from_public_bytes(raw[1:])
    return keys, sum(kind == "witness" for kind, _, _ in keys) if quorum is None else quorum


def read_signatures(note: str, keys: Keys) -> tuple[str, dict[tuple[str, str], int]]:
    """Return the text of a signed note, and {(type, name): time} of the known keys that have signed it."""
    text, separator, lines = note.rpartition("\n\n")
    require(separator and lines.endswith("\n") and not any(c < " " and c != "\n" for c in note), "the checkpoint is malformed")
    text += "\n"
    signed = {}
    for line in lines.split("\n")[:-1]:
        dash, name, value = line.split(" ")
        raw = decode(value)
        require(dash == "\u2014", "a signature is malformed")
        for kind in TYPES:
            key, signature, message, at = keys.get((kind, name, raw[:4])), raw[4:], text, 0
            if key is None:
                continue
            if kind == "witness":
                at, signature = int.from_bytes(signature[:8], "big"), signature[8:]
                message = f"cosignature/v1\ntime {at}\n{text}"
            try:
                key.verify(signature, message.encode())
            except InvalidSignature:
                raise NotProvedError(f"the signature of {name} is invalid") from None
            signed[kind, name] = at
    return text, signed


def root_from(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """Return the root that the inclusion proof leads to (RFC 9162, section 2.1.3.2)."""
    require(0 <= index < size, "the index is outside of the tree")
    position, last, root = index, size - 1, leaf
    for sibling in path:
        require(last > 0 and len(sibling) == 32, "the proof does not fit the index")
        if position & 1 or position == last:
            root = sha256(b"\1", sibling, root)
            while position and not position & 1:
                position, last = position >> 1, last >> 1
        else:
            root = sha256(b"\1", root, sibling)
        position, last = position >> 1, last >> 1
    require(last == 0, "the proof does not fit the index")
    return root


def verify(decision_text: str, proof_text: str, keys_text: str) -> str:
    """Return the sentence that says what is proved. Raises NotProvedError."""
    keys, quorum = read_trusted_keys(keys_text)
    # As pairs, because of two members with one name another reader may use the other one.
    members = json.loads(decision_text, object_pairs_hook=list)
    require([name for name, _ in members] == ["salt", "record"], "the decision has other members than salt and record")
    decision = dict(members)
    salt = decode(decision["salt"])
    require(len(salt) == 32, "the salt does not have 32 bytes")
    commitment = sha256(salt, decision["record"].encode("utf-8", "surrogatepass"))
    leaf = sha256(b"\0graph-agent/leaf/v1\ndecision\n", base64.b64encode(commitment), b"\n")
    head, _, note = proof_text.partition("\n\n")
    title, *lines = head.split("\n")
    require(title == "c2sp.org/tlog-proof@v1", "it is not a proof of a transparency log")
    if lines[0].startswith("extra "):
        lines.pop(0)
    word, _, index = lines.pop(0).partition(" ")
    require(word == "index", "the proof has no index")
    text, signed = read_signatures(note, keys)
    origin, size, root, *rest = text.split("\n")
    require(rest == [""], "the checkpoint is malformed")
    require(("log", origin) in signed, "the log has not signed the checkpoint with a trusted key")
    path = [decode(line) for line in lines]
    require(root_from(leaf, number(index), number(size), path) == decode(root), "the record is not the one in the log")
    utc = timezone.utc  # noqa: UP017 (an auditor's Python may be older than ours)
    times = {name: datetime.fromtimestamp(at, utc) for (kind, name), at in signed.items() if kind == "witness"}
    require(len(times) >= quorum, f"{len(times)} of the {quorum} required witnesses have signed")
    witnesses = ", ".join(f"{name} at {at:%Y-%m-%d %H:%M:%S} UTC" for name, at in times.items())
    seen = f"witnessed by {witnesses}" if times else "UNANCHORED: no witness has signed"
    decision_id = json.loads(decision["record"])["header"]["decision_id"]
    # The log's operator chooses it, and it must not be able to say more in this sentence, such as who has signed.
    require(decision_id.isascii() and decision_id.replace("-", "").isalnum(), "the id of the decision is no id")
    sentence = f"the record of decision {decision_id} is number {int(index):,} of {int(size):,} in {origin}; {seen}"
    require(sentence.isprintable(), "a name contains characters that cannot be printed")
    return sentence


def field(data: bytes, at: int) -> tuple[bytes, int]:
    """Return a text of SSH's binary format at a position, and the position after it."""
    end = at + 4 + int.from_bytes(data[at : at + 4], "big")
    require(at + 4 <= len(data) and end <= len(data), "a signature is too short")
    return data[at + 4 : end], end


def packed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def check_signature(key: bytes, armored: str, message: bytes) -> None:
    """Raise NotProvedError unless `armored` is the SSH signature of an approval by this public key."""
    lines = armored.strip().splitlines()
    require(lines[:1] == ["-----BEGIN SSH SIGNATURE-----"] and lines[-1:] == ["-----END SSH SIGNATURE-----"], "no signature")
    blob, parts, at = base64.b64decode("".join(lines[1:-1]), validate=True), [], 10
    require(blob[:10] == b"SSHSIG\0\0\0\1", "a signature is of another version")
    for _ in range(5):
        part, at = field(blob, at)
        parts.append(part)
    signer, namespace, reserved, algorithm, signature = parts
    require(at == len(blob) and namespace == b"graph-agent-approval", "a signature was made for another purpose")
    require(algorithm in (b"sha256", b"sha512") and signer == key, "a signature was made with another key")
    signed = b"SSHSIG" + packed(namespace, reserved, algorithm, hashlib.new(algorithm.decode(), message).digest())
    kind, at = field(key, 0)
    raw, at = field(key, at)
    name, end = field(signature, 0)
    value, end = field(signature, end)
    require(name == kind, "a signature was made with another kind of key")
    if kind == b"sk-ssh-ed25519@openssh.com":
        application, at = field(key, at)
        state, end = signature[end : end + 5], end + 5
        require(len(state) == 5 and state[0] & 1, "a security key was not touched")
        signed = sha256(application) + state + sha256(signed)
    else:
        require(kind == b"ssh-ed25519", "a kind of key is not accepted")
    require(end == len(signature) and at == len(key), "a signature has trailing bytes")
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(value, signed)
    except InvalidSignature:
        raise NotProvedError("a signature is that of another text") from None


def verify_approvers(decision_text: str, keys_text: str) -> str:
    """Return the sentence that names who has signed the approval of the decision's call. Raises NotProvedError."""
    record = json.loads(json.loads(decision_text)["record"])
    approval = record["header"]["context"].get("approval")
    require(approval and approval["end"] == "approved", "the call of the decision was not approved")
    request, people = approval["request"], []
    action = request["action"]
    text, arguments = (
        json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for value in (request, action["arguments"])
    )
    keys = [line.split()[:3] for line in keys_text.splitlines() if line.strip() and not line.startswith("#")]
    for answer in approval["answers"]:
        digest = sha256(text.encode("utf-8", "surrogatepass")).hex()
        require(answer["digest"] == digest and answer["approve"], "an answer is about another request")
        require(answer["approver"] != request["user_id"], "the requester approved the call")
        facts = {
            "origin": request["origin"],
            "request": action["id"],
            "digest": digest,
            "requester": request["user_id"],
            "conversation": request["conversation_id"],
            "decision": request["decision_id"],
            "tool": action["tool_name"],
            "arguments": arguments,
            "expires": action["expires_at"],
            "answer": "approve",
            "approver": answer["approver"],
            "role": answer["role"],
        }
        lines = [f"{name}: {value.encode('unicode_escape').decode('ascii')}" for name, value in facts.items()]
        message = "\n".join(["graph-agent/approval/v1", *lines, ""]).encode()
        own = [base64.b64decode(key) for users, _, key in keys if answer["approver"] in users.split(",")]
        require(own, f"there is no key of {answer['approver']!a}")
        for position, key in enumerate(own, 1):
            try:
                check_signature(key, answer.get("signature", ""), message)
                break
            except NotProvedError:
                if position == len(own):
                    raise
        people.append(f"{answer['approver']!a} as {answer['role']!a}")
    require(len({answer["approver"] for answer in approval["answers"]}) == len(people) > 0, "nobody approved the call")
    made = [{"tool": call["tool_name"], "arguments": call["parameters"]} for call in record["invocations"]]
    asked = {"tool": action["tool_name"], "arguments": action["arguments"]}
    require(made == [asked], "the decision has another call than the approved one")
    return f"approved and signed by {', '.join(people)}"


def leaves(value: object) -> list[object]:
    """Return the texts, numbers and truth values in a JSON value, without those that are null."""
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    if parts is None:
        return [] if value is None else [value]
    return [leaf for part in parts for leaf in leaves(part)]


def is_up_to(value: object, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most


def is_in(value: object, found: Sequence[object]) -> bool:
    """True if a value is one of these leaves, or stands in one between the borders of words."""
    text = str(value)
    word = re.compile(rf"(?<![\w-]){re.escape(text)}(?![\w-])") if len(text) >= 4 else None
    return any(text == str(leaf) or (word is not None and word.search(str(leaf)) is not None) for leaf in found)


HOST = r"[a-z0-9-]+(?:\.[a-z0-9-]+)+"
FORMS = {
    "code": r"(?=.*[0-9])[A-Za-z0-9_-]{1,14}",
    "number": r"-?[0-9.e+-]+",
    "link": rf"https?://(?P<host>{HOST})(?::80|:443)?(?:[/?#][!-~]*)?",
    "address": rf"[A-Za-z0-9._%+-]+@(?P<host>{HOST})",
}


def is_of_form(value: object, bound: Record, said: str) -> bool:
    """True if a value has the form of its bound; the host of a link or an address stands in the user's words."""
    if "form" not in bound:
        return True
    found = re.fullmatch(FORMS[bound["form"]], str(value), re.ASCII)
    if found is None or (bound["form"] == "number" and not is_up_to(value, bound.get("at_most", float("inf")))):
        return False
    host = found.groupdict().get("host")
    return host is None or host in re.findall(HOST, said.lower())


def is_within(value: object, bound: Record, origins: set[str], results: Record, said: str) -> bool:
    """True if the value of an argument is within its bound. `origins` are where it comes from."""
    values = leaves(value)
    if not values:
        return False
    if "is" in bound:
        given, allowed = (Counter((isinstance(one, bool), one) for one in several) for several in (values, bound["is"]))
        return not given - allowed
    if "from" in bound:
        found = results.get(bound["from"], [])
        return all(is_of_form(leaf, bound, said) and is_in(leaf, found) for leaf in values)
    if "own_text" in bound:
        return all(isinstance(leaf, str) for leaf in values) and bool(origins) and "untrusted" not in origins
    return all(is_up_to(leaf, bound["at_most"]) for leaf in values)


def origins_of(call: Record, entries: Sequence[Record]) -> Record:
    """Return where each argument of a call comes from, as the `entries` before it have it; nothing if they do not."""
    asked = [one["result"].get("function_calls") or [] for one in entries if one["kind"] == "model"][-1:]
    found = [one["result"]["calls"] for one in entries if one["kind"] == "sources"][-1:]
    if not asked or not found or len(asked[0]) != len(found[0]):
        return {}
    wanted = call["tool_name"], call["parameters"]
    mine = [number for number, one in enumerate(asked[0]) if (one["name"], one["arguments"]) == wanted]
    given = found[0][mine[0]]["arguments"] if mine else {}
    return {name: {one["source"] for one in origins} for name, origins in given.items()}


def when(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))  # noqa: FURB162 (an auditor's Python may be older than ours)


def verify_plan(decision_text: str, agreed_text: str) -> str:
    """Return the sentence that counts the calls of a decision under the plan of another one. Raises NotProvedError."""
    record, agreed = (json.loads(json.loads(text)["record"]) for text in (decision_text, agreed_text))
    minted = [one for one in agreed["entries"] if one["kind"] == "mint"]
    require(len(minted) == 1, "the second decision agrees to no plan")
    plan, context = minted[0]["result"], record["header"]["context"]
    same = record["header"]["decision_id"] == agreed["header"]["decision_id"]
    job = plan["plan"].get("job", "")
    for named in (context, agreed["header"]["context"]):
        # A standing plan is in force in the runs of its job, each of which is a conversation.
        here = named["conversation_id"] == plan["conversation_id"] or (job and named is context and context.get("job") == job)
        require(named["user_id"] == plan["user_id"] and here, "the plan is that of another user, conversation or job")
    require(not job or context.get("job") == job, "the decision is no run of the job of the plan")
    said = "\n".join([context["message"], *(one["content"] for one in context["message_history"] if one["role"] == "user")])
    results: Record = {}
    for one in [*agreed["invocations"], *([] if same else record["invocations"])]:
        results.setdefault(one["tool_name"], []).extend(leaves(one["result"]))
    calls = {one["sequence"]: one for one in record["invocations"]}
    drawn = [one for one in record["entries"] if one["kind"] == "reserve" and one["result"].get("mandate")]
    require(drawn, "no call of the decision ran under a plan")
    made: set[tuple[int, int]] = set()
    for entry in drawn:
        draw, call, at = entry["result"]["mandate"], calls[entry["operation"]], when(entry["result"]["facts"]["now"])
        require(draw["id"] == plan["id"], "a call ran under another plan")
        require(not same or minted[0]["n"] < entry["n"], "a call was made before the yes")
        require(when(plan["created_at"]) <= at < when(plan["until"]), "a call was made outside of the time of the plan")
        line = plan["plan"]["lines"][draw["line"] - 1]
        require(1 <= draw["drawn"] <= line["times"], "a line was drawn more often than it permits")
        # A run is the conversation of its decisions: the calls of a line are counted within it.
        runs = draw.get("run", 0)
        require(not job or 1 <= runs <= plan["plan"].get("runs", 1), "more runs have drawn than the plan permits")
        taken = (draw["line"], draw["drawn"])
        require(taken not in made, "two calls are the same draw of a line")
        made |= {taken} if call["success"] else set()
        given = {name: value for name, value in call["parameters"].items() if value is not None}
        require(call["tool_name"] == line["tool"] and set(given) == set(line["arguments"]), "a call does not fit its line")
        origins = origins_of(call, record["entries"][: entry["n"]])
        for name, bound in line["arguments"].items():
            why = f"the argument {name!a} of a call is not within its line, as far as these two decisions show"
            require(is_within(given[name], bound, origins.get(name, set()), results, said), why)
        for name, most in line.get("sum", {}).items():
            # One call alone: those that failed count nothing, and others may be in further decisions.
            require(sum(map(float, map(str, leaves(given[name])))) <= float(most), f"the sum of {name!a} is too large")
    # The operator chooses it, and it must not be able to say more in this sentence.
    require(plan["id"].isascii() and plan["id"].replace("-", "").isalnum(), "the id of the plan is no id")
    return f"{len(drawn)} of its calls ran under the plan {plan['id']}, within its lines and its time"


def verify_in_force(decision_text: str, proof_text: str, folder: Path) -> str:
    """Return the sentence that no statement of the log revokes the plan of a decision's calls before them.

    Raises NotProvedError. The statements are those of the tree that the proof of the decision is in.
    """
    drawn = [one["result"] for one in json.loads(json.loads(decision_text)["record"])["entries"] if one["kind"] == "reserve"]
    calls = [(one["mandate"]["id"], when(one["facts"]["now"])) for one in drawn if one.get("mandate")]
    for _, one in read_statements(proof_text, folder):
        if one["statement"] == "revoked":
            late = any(plan == one["mandate"] and when(one["at"]) <= at for plan, at in calls)
            require(not late, "the log states that the plan was revoked before a call")
    return "no statement of the log revokes the plan before these calls"


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root of the tree of these leaf hashes (RFC 9162, section 2.1.1)."""
    # The roots of complete subtrees, the largest first: one for each bit of the number of leaves.
    roots: list[tuple[int, bytes]] = []
    for leaf in leaves:
        size, root = 1, leaf
        while roots and roots[-1][0] == size:
            root, size = sha256(b"\1", roots.pop()[1], root), 2 * size
        roots.append((size, root))
    require(roots, "the log is empty")
    root = roots.pop()[1]
    while roots:
        root = sha256(b"\1", roots.pop()[1], root)
    return root


def read_statements(proof_text: str, folder: Path) -> list[tuple[int, Record]]:
    """Return every statement of a log about itself with the number of its leaf. Raises NotProvedError if one may be missing.

    FOLDER has every leaf of the tree that a proof is in.
    """
    _, size, root, *_ = proof_text.partition("\n\n")[2].split("\n")
    lines = [tuple(line.split(" ")) for line in (folder / "leaves.txt").read_bytes().decode().splitlines()]
    leaves = [(kind, commitment) for kind, commitment in lines][: number(size)]
    require(len(leaves) == number(size), "there are fewer leaves than in the signed tree")
    require(all(kind.isalpha() and len(decode(commitment)) == 32 for kind, commitment in leaves), "a leaf is malformed")
    hashes = [sha256(f"\0graph-agent/leaf/v1\n{kind}\n{commitment}\n".encode()) for kind, commitment in leaves]
    require(root_of(hashes) == decode(root), "these are not the leaves of the signed tree")
    opened = {one["leaf"]: one for one in json.loads((folder / "statements.json").read_bytes().decode())}
    statements = []
    for at, (kind, commitment) in enumerate(leaves):
        if kind != "statement":
            continue
        # One that is not opened may put other rules in force, or revoke a plan.
        require(at in opened, f"the statement at leaf {at} is not opened, so it may say anything")
        one = opened[at]
        text = one["text"].encode("utf-8", "surrogatepass")
        salt = decode(one["salt"])
        require(len(salt) == 32 and sha256(salt, text) == decode(commitment), f"leaf {at} has another statement")
        statements.append((at, json.loads(one["text"])))
    return statements


def read_activations(statements: Sequence[tuple[int, Record]]) -> list[tuple[int, Record]]:
    """Return the statements about rules. Raises NotProvedError if one does not follow the one before it."""
    activations = [(at, one) for at, one in statements if one["statement"] == "rules"]
    for place in range(1, len(activations)):
        before, after = activations[place - 1][1], activations[place][1]
        follows = after["number"] == before["number"] + 1 and after.get("previous") == before["rules"]
        require(follows, f"the activation {after['number']} does not follow {before['number']}")
    return activations


def verify_rules(decision_text: str, proof_text: str, folder: Path) -> str:
    """Return the sentence that says under which rules a decision that is proved was made. Raises NotProvedError."""
    head = proof_text.partition("\n\n")[0]
    index = number(next(line for line in head.split("\n") if line.startswith("index "))[6:])
    activations = read_activations(read_statements(proof_text, folder))
    header = json.loads(json.loads(decision_text)["record"])["header"]
    rules = header.get("rules")
    require(isinstance(rules, str) and len(rules) == 64 and rules.isalnum(), "the record names no rules of an installation")
    manifest_text = (folder / f"{rules}.json").read_bytes().decode()
    require(sha256(manifest_text.encode("utf-8", "surrogatepass")).hex() == rules, "the rule set is another one")
    parts = json.loads(manifest_text)["parts"]
    require(parts["constitution"] == header["constitution"], "the rule set has another constitution than the record")
    # The first rules have replaced none, so that no statement says more than the second one's: what was before.
    known = [(-1, {"number": one["number"] - 1, "rules": one["previous"]}) for _, one in activations[:1] if "previous" in one]
    if known:
        require(known[0][1]["number"] == 1, "the first statement about rules is not the first one of the log")
    elif activations:
        require(activations[0][1]["number"] == 1, "the first statement about rules is not the first one of the log")
    before = [one for at, one in [*known, *activations] if at < index]
    if not activations:
        return f"under the rules {rules[:12]}, which no others have replaced in this log"
    under = [one for one in before if one["rules"] == rules]
    require(under, "its rules were never in force before it was closed")
    found, last = under[-1], before[-1]
    kind = found.get("kind", "followed")
    require(str(kind).isalpha(), "the kind of an activation is malformed")
    sentence = f"under rules {int(found['number']):,} ({rules[:12]}, {kind}), "
    if found is last:
        return sentence + "which were in force when it was closed"
    return sentence + f"replaced by rules {int(last['number']):,} before it was closed"


OPTIONS = {"--approvers": 1, "--plan": 2, "--rules": 1}


def read_options(given: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the values of each option. Raises KeyError for another one, ValueError if it has too few values."""
    options: dict[str, Sequence[str]] = {}
    left = list(given)
    while left:
        name = left.pop(0)
        options[name], left = left[: OPTIONS[name]], left[OPTIONS[name] :]
        if len(options[name]) < OPTIONS[name]:
            raise ValueError(name)
    return options


def main(files: Sequence[str], options: dict[str, Sequence[str]]) -> None:
    """Print what is proved. Raises NotProvedError."""

    def texts_of(names: Sequence[str]) -> list[str]:
        # Bytes, because reading text would change its line breaks.
        return [Path(name).read_bytes().decode() for name in names]

    decision, proof, keys = texts_of(files)
    print("PROVED, with these keys:", verify(decision, proof, keys))
    if "--approvers" in options:
        print("PROVED, with these keys:", verify_approvers(decision, *texts_of(options["--approvers"])))
    if "--plan" in options:
        agreed, agreed_proof = texts_of(options["--plan"])
        print("PROVED, with these keys:", verify(agreed, agreed_proof, keys))
        print("PROVED, with these keys:", verify_plan(decision, agreed))
        if "--rules" in options:
            print("PROVED, with these keys:", verify_in_force(decision, proof, Path(options["--rules"][0])))
    if "--rules" in options:
        print("PROVED, with these keys:", verify_rules(decision, proof, Path(options["--rules"][0])))


if __name__ == "__main__":
    try:
        wanted = read_options(sys.argv[4:])
    except (KeyError, ValueError):
        sys.exit(__doc__)
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    try:
        main(sys.argv[1:4], wanted)
    except Exception as error:  # whatever is wrong with the files, they prove nothing
        sys.exit(f"NOT PROVED: {error}")
