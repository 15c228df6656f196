"""The hash chain of closed records: each record is sealed together with its predecessor, in the transaction that closes it.

A chain belongs to one writing thread of one process, so that no writer waits for another; every process starts new chains. With
a key a seal is an HMAC-SHA256. Without a key it is a plain SHA-256: it shows accidental changes, but anyone can recompute it.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select, update

from graph_agent.db.prepared import PreparedStatement
from graph_agent.models.canonical import canonical_json
from graph_agent.ports import Clock
from graph_agent.record.chain_tables import record_chains, record_links

SIGN_EVERY_RECORDS = 64
SIGN_EVERY_SECONDS = 60.0
"""A chain's head is signed again after this many records, or with the first record after this many seconds."""


ChainKey = bytes | tuple[bytes, ...] | None
"""A key, or the current key followed by the previous ones; None for plain hashes."""

# Parameters are named unlike the columns: an UPDATE binds its new values under the columns' own names.
_HEAD = PreparedStatement(
    select(record_links.c.n, record_links.c.mac)
    .where(record_links.c.chain == bindparam("of_chain"))
    .order_by(record_links.c.n.desc())
    .limit(1)
)
# `cut_n` and `cut_mac` are the prune marker: the last position that was pruned, and its seal.
_PRUNE_MARKER = select(record_chains.c.cut_n, record_chains.c.cut_mac).where(record_chains.c.chain == bindparam("of_chain"))
_INSERT_CHAIN = insert(record_chains)
_INSERT_LINK = PreparedStatement(insert(record_links))
_SIGN_HEAD = update(record_chains).where(record_chains.c.chain == bindparam("of_chain"))
# Never back: another thread may have signed a later head meanwhile.
_ADVANCE_HEAD = update(record_chains).where(
    record_chains.c.chain == bindparam("of_chain"), record_chains.c.signed_n < bindparam("position")
)


def derive_chain_key(secret: bytes) -> bytes:
    """Derive the key of the chains from the secret that signs confirmations; neither reveals the other."""
    return hmac.new(secret, b"graph-agent record chain", hashlib.sha256).digest()


class Sealer:
    """Seals and signatures under the current key, or plain hashes where `key` is None. Previous keys only verify.

    Each method seals its purpose too, so that a seal of one kind is never valid as another. The purposes are part of the stored
    format: changing one invalidates existing logs.
    """

    def __init__(self, key: ChainKey) -> None:
        keys = key if isinstance(key, tuple) else (key,)
        self._key = keys[0]
        self.all: tuple[Sealer, ...] = (self, *map(Sealer, keys[1:]))
        """The sealers of all keys, the current one first."""

    def accepts(self, seal: str | None, make: Callable[[Sealer], str]) -> bool:
        """True if `seal` is the one that `make` returns for the sealer of any key."""
        return any(seal == make(sealer) for sealer in self.all)

    def of_key(self, key_id: str | None) -> Sealer | None:
        """Return the sealer of the key with this identifier, None if the key is unknown."""
        return next((sealer for sealer in self.all if sealer.key_id == key_id), None)

    @property
    def key_id(self) -> str | None:
        """An identifier that tells keys apart without revealing them; None for plain hashes."""
        return None if self._key is None else self.compute("key")[:16]

    def compute(self, purpose: str, *facts: str | int, text: str = "") -> str:
        """Return the seal of `facts` and `text` for one `purpose`, in hex."""
        # A record from a model may contain lone surrogates, which plain UTF-8 cannot encode.
        sealed = f"{canonical_json([purpose, *facts])}\n{text}".encode("utf-8", "surrogatepass")
        if self._key is None:
            return hashlib.sha256(sealed).hexdigest()
        return hmac.new(self._key, sealed, hashlib.sha256).hexdigest()

    def opening(self, decision_id: str, conversation_id: str, user_id: str, message: str, header: str | None) -> str:
        """Return the seal of an opening row: the statement that a holder of the key opened this decision with this header."""
        return self.compute("opening", decision_id, conversation_id, user_id, message, text=header or "")

    def link(self, chain: str, n: int, previous: str, record: str) -> str:
        """Return the seal of the canonical text `record` at position `n`; `previous` is the seal before it ("" for none)."""
        return self.compute("record", chain, n, previous, text=record)

    def head(self, chain: str, n: int, mac: str) -> str:
        """Return the signature of a chain head: the statement that `chain` had grown to `n` records and ended with `mac`."""
        return self.compute("head", chain, n, mac)

    def pruned(self, chain: str, n: int, mac: str, decision_id: str) -> str:
        """Return the signature of a pruned link: the statement that this record was removed on purpose."""
        return self.compute("pruned", chain, n, mac, decision_id)

    def prune_marker(self, chain: str, n: int, mac: str) -> str:
        """Return the signature of a prune marker: the statement that all records up to `n` were removed on purpose."""
        return self.compute("cut", chain, n, mac)


@dataclass(slots=True)
class _ThreadChain:
    """The chain of one thread, and when its head was last signed."""

    chain: str
    signed_n: int
    signed_at: float


class ChainWriter:
    """Appends closed records to chains, one chain for each calling thread."""

    def __init__(self, key: ChainKey, *, clock: Clock) -> None:
        self._sealer = Sealer(key)
        self._key_id = self._sealer.key_id
        self._clock = clock
        self._local = threading.local()
        self._chains: set[str] = set()

    def append(self, connection: Connection, decision_id: str, record: str) -> None:
        """Append the canonical text `record`, in the transaction that stores it."""
        own = self._chain_of_thread()
        # The head is read from the database each time, not remembered: the transaction that wrote it may have been rolled back.
        head = _HEAD.first(connection, {"of_chain": own.chain})
        if head is None:
            # No links: either the chain is new, or all of it was pruned and it continues after its prune marker.
            head = connection.execute(_PRUNE_MARKER, {"of_chain": own.chain}).one_or_none()
        previous_n, previous_mac = (0, "") if head is None else (head[0], head[1])
        n = previous_n + 1
        mac = self._sealer.link(own.chain, n, previous_mac, record)
        if head is None:
            row = {"chain": own.chain, "started_at": self._clock.now(), "key_id": self._key_id}
            connection.execute(_INSERT_CHAIN, {**row, **self._sign_head(own, n, mac), "cut_n": 0, "cut_mac": ""})
        elif n >= own.signed_n + SIGN_EVERY_RECORDS or self._clock.monotonic() >= own.signed_at + SIGN_EVERY_SECONDS:
            connection.execute(_SIGN_HEAD, {"of_chain": own.chain, **self._sign_head(own, n, mac)})
        _INSERT_LINK.run(connection, {"chain": own.chain, "n": n, "decision_id": decision_id, "mac": mac})

    def sign_heads(self, connection: Connection) -> None:
        """Sign the current heads of all chains of this writer, so that records removed from their ends are detected."""
        for chain in sorted(self._chains):
            head = _HEAD.first(connection, {"of_chain": chain})
            if head is not None:
                signed = {"signed_n": head.n, "signed_mac": head.mac, "signature": self._sealer.head(chain, head.n, head.mac)}
                connection.execute(_ADVANCE_HEAD, {"of_chain": chain, "position": head.n, **signed})

    def start_new_chains(self) -> None:
        """Stop using the current chains. After a commit whose result is unknown, their last record is unknown too."""
        self._local = threading.local()

    def _chain_of_thread(self) -> _ThreadChain:
        own: _ThreadChain | None = getattr(self._local, "chain", None)
        if own is None:
            own = self._local.chain = _ThreadChain(str(uuid.uuid4()), 0, self._clock.monotonic())
            self._chains.add(own.chain)
        return own

    def _sign_head(self, own: _ThreadChain, n: int, mac: str) -> dict[str, str | int]:
        own.signed_n, own.signed_at = n, self._clock.monotonic()
        return {"signed_n": n, "signed_mac": mac, "signature": self._sealer.head(own.chain, n, mac)}
