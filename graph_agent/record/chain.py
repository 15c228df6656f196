"""The chain of records: each one sealed together with its predecessor, in the transaction that closes it.

One chain belongs to one thread that writes, and begins anew with its process, so that no writer ever waits for another. A seal
is an HMAC-SHA256 where there is a key. Without one it is a plain SHA-256: that shows a slip, not somebody who knows how.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
import uuid
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select, update

from graph_agent.record.chain_tables import RecordChain, RecordLink
from graph_agent.record.tables import table_of
from graph_agent.models.canonical import canonical_json
from graph_agent.ports import Clock

SIGN_EVERY_RECORDS = 64
SIGN_EVERY_SECONDS = 60.0
"""How far, and for how long, a chain may grow beyond its last signed head."""

_chains = table_of(RecordChain)
_links = table_of(RecordLink)

_HEAD = select(_links.c.n, _links.c.mac).where(_links.c.chain == bindparam("of_chain")).order_by(_links.c.n.desc()).limit(1)
_START = select(_chains.c.cut_n, _chains.c.cut_mac).where(_chains.c.chain == bindparam("of_chain"))
_BEGIN = insert(_chains)
_LINK = insert(_links)
_SIGN = update(_chains).where(_chains.c.chain == bindparam("of_chain"))


def derive_chain_key(secret: bytes) -> bytes:
    """The chain's key, made from the secret that signs confirmations; neither tells the other."""
    return hmac.new(secret, b"graph-agent record chain", hashlib.sha256).digest()


class Seal:
    """What is sealed under one key, or under none."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key

    @property
    def key_id(self) -> str | None:
        """Tells keys apart without telling them; None for the plain chain."""
        return None if self._key is None else self.over("key")[:16]

    def over(self, purpose: str, *facts: str | int, text: str = "") -> str:
        """The seal of `facts` and `text` for one `purpose`, in hex."""
        sealed = f"{canonical_json([purpose, *facts])}\n{text}".encode("utf-8", "surrogatepass")
        if self._key is None:
            return hashlib.sha256(sealed).hexdigest()
        return hmac.new(self._key, sealed, hashlib.sha256).hexdigest()

    def link(self, chain: str, n: int, previous: str, record: str) -> str:
        """The seal of the canonical text `record` at place `n`, after the one whose seal is `previous` ("" for none)."""
        return self.over("record", chain, n, previous, text=record)

    def head(self, chain: str, n: int, mac: str) -> str:
        """The signature that says that `chain` had come to `n`."""
        return self.over("head", chain, n, mac)

    def pruned(self, chain: str, n: int, mac: str, decision_id: str) -> str:
        """The signature that says that one record was removed on purpose."""
        return self.over("pruned", chain, n, mac, decision_id)

    def cut(self, chain: str, n: int, mac: str) -> str:
        """The signature that says that everything up to `n` was removed on purpose."""
        return self.over("cut", chain, n, mac)


@dataclass(slots=True)
class _Lane:
    """One thread's chain, and when it was last signed."""

    chain: str
    signed_n: int
    signed_at: float


class ChainWriter:
    """Puts closed records into chains, one chain for each thread it is called on."""

    def __init__(self, key: bytes | None, *, clock: Clock) -> None:
        self._seal = Seal(key)
        self._key_id = self._seal.key_id
        self._clock = clock
        self._lanes = threading.local()

    def append(self, connection: Connection, decision_id: str, record: str) -> None:
        """Link the canonical text `record`, in the transaction that stores it.

        The head is read and not remembered: a transaction may still be undone after this has returned.
        """
        lane = self._lane()
        head = connection.execute(_HEAD, {"of_chain": lane.chain}).one_or_none()
        if head is None:
            head = connection.execute(_START, {"of_chain": lane.chain}).one_or_none()
        before_n, before_mac = (0, "") if head is None else (head[0], head[1])
        n = before_n + 1
        mac = self._seal.link(lane.chain, n, before_mac, record)
        if head is None:
            begun = {"chain": lane.chain, "started_at": self._clock.now(), "key_id": self._key_id}
            connection.execute(_BEGIN, {**begun, **self._signed(lane, n, mac), "cut_n": 0, "cut_mac": ""})
        elif n >= lane.signed_n + SIGN_EVERY_RECORDS or self._clock.monotonic() >= lane.signed_at + SIGN_EVERY_SECONDS:
            connection.execute(_SIGN, {"of_chain": lane.chain, **self._signed(lane, n, mac)})
        connection.execute(_LINK, {"chain": lane.chain, "n": n, "decision_id": decision_id, "mac": mac})

    def begin_anew(self) -> None:
        """Leave every chain where it is. After a commit whose fate is not known nobody can say where the old ones end."""
        self._lanes = threading.local()

    def _lane(self) -> _Lane:
        lane: _Lane | None = getattr(self._lanes, "lane", None)
        if lane is None:
            lane = self._lanes.lane = _Lane(str(uuid.uuid4()), 0, self._clock.monotonic())
        return lane

    def _signed(self, lane: _Lane, n: int, mac: str) -> dict[str, str | int]:
        lane.signed_n, lane.signed_at = n, self._clock.monotonic()
        return {"signed_n": n, "signed_mac": mac, "signature": self._seal.head(lane.chain, n, mac)}
