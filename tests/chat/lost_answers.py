"""Thousands of payments whose answers are lost: `python -m tests.chat.lost_answers [--calls 1000] [KIND ...]`.

Half of the requests of each kind of server are dropped after the effect, delayed, or cut before or after it. The settler of the
runtime works beside the turns, and for a minute after the last one.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from graph_agent.bootstrap.stores import open_stores
from graph_agent.chat.settling import OutcomeSettler
from graph_agent.clock import SystemClock
from graph_agent.models.tools import UNKNOWN_CODES
from graph_agent.settings import Settings
from graph_agent.turn.sent_calls import SentCalls
from tests.chat.payment_servers import KEYED, Kind
from tests.chat.payment_shop import COMPLETE, LINES, Shop, opened, states_by_amount
from tests.settling import settle_all

KINDS: list[Kind] = [*KEYED, "listed", "plain"]
NOT_KNOWN = "Not known whether this was done"


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of many payments at one kind of server."""

    kind: Kind
    calls: int
    lost: int
    """How many requests got no answer, also of those that were sent again."""
    doubled: int
    wrong: int
    """The calls that are reported as done and were not, or the other way round."""
    unreported: int
    """The calls whose outcome was unknown, and whose reply does not say so; or the other way round."""
    unknown_at_first: int
    unknown: int

    @property
    def is_as_promised(self) -> bool:
        """True if nothing is doubled or wrong, and no more is unknown than the declaration of the tool promises."""
        most = 0 if self.kind in KEYED else self.calls // 10 if self.kind == "listed" else self.unknown_at_first
        right = not (self.doubled or self.wrong or self.unreported) and self.unknown <= most
        return right and (self.kind != "plain" or self.unknown == self.unknown_at_first)

    def __str__(self) -> str:
        return (
            f"{self.kind}: {self.calls} calls, {self.lost} requests without an answer: {self.doubled} doubled, "
            f"{self.wrong} wrong, {self.unreported} not reported, {self.unknown_at_first} unknown after the turn, "
            f"{self.unknown} at the end"
        )


async def pay_often(folder: Path, kind: Kind, count: int, *, at_once: int, settle_for: float, seed: str = "") -> Outcomes:
    """Make `count` payments, and settle their outcomes until `settle_for` seconds after the last one."""
    lines = COMPLETE if kind == "listed" else LINES[kind]
    async with open_stores(Settings(GRAPH_AGENT_HOME=folder)) as stores, opened(stores.database, kind, lines) as shop:
        # No turn ends early because the machine is busy.
        shop.seconds = 120.0
        # A constitution with `(complete)` says that no request arrives later than after 30 seconds.
        shop.server.delay = 5.0
        shop.server.dice = Random(f"{kind}{seed}")
        limit = asyncio.Semaphore(at_once)

        async def pay(amount: int) -> tuple[str, bool]:
            async with limit:
                reference = {"reference": f"order {amount}"} if kind == "listed" else {}
                finished = await shop.pay(amount, **reference)
                is_unknown = any(call.error_code in UNKNOWN_CODES for call in finished.record.invocations)
                return str(finished.decision), is_unknown

        settler = OutcomeSettler(shop.tools, shop.log, clock=SystemClock(), sent_calls=SentCalls(shop.engine()))
        settling = asyncio.create_task(_settle_forever(settler))
        try:
            answers = await asyncio.gather(*(pay(amount) for amount in range(1, count + 1)))
            # What is still delayed arrives after all turns have ended.
            await shop.server.arrive()
            shop.server.dice = None
            await _settled(shop, settle_for)
        finally:
            settling.cancel()
            with suppress(asyncio.CancelledError):
                await settling
        states, paid = await states_by_amount(shop.log), Counter(amount for amount, _ in shop.server.payments)
        known = {amount: state == "done" for amount, state in states.items() if state != "unknown"}
        return Outcomes(
            kind=kind,
            calls=count,
            lost=shop.server.lost,
            doubled=sum(times > 1 for times in paid.values()),
            wrong=sum(is_done != (paid[amount] > 0) for amount, is_done in known.items()),
            unreported=sum((NOT_KNOWN in reply) != unknown for reply, unknown in answers),
            unknown_at_first=sum(unknown for _, unknown in answers),
            unknown=len(states) - len(known),
        )


async def _settle_forever(settler: OutcomeSettler) -> None:
    while True:
        await settle_all(settler)
        await asyncio.sleep(0.05)


async def _settled(shop: Shop, seconds: float) -> None:
    """Wait until no outcome is unknown, at most this long."""
    for _ in range(round(seconds)):
        if "unknown" not in (await states_by_amount(shop.log)).values():
            break
        await asyncio.sleep(1)


def main() -> int:
    """Print the outcomes of each kind; return 1 if one is not as promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", choices=[*KINDS, []])
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=20)
    given, found = parser.parse_args(), []
    for kind in given.kinds or KINDS:
        with TemporaryDirectory() as folder:
            paying = pay_often(Path(folder), kind, given.calls, at_once=given.at_once, settle_for=60)
            found.append(asyncio.run(paying))
        print(found[-1], flush=True)
    return 0 if all(one.is_as_promised for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
