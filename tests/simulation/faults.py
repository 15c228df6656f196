"""The faults of one simulation: which ones there are and how often, drawn from its seed.

Each seed has only some of the faults, because a run that has all of them all the time gets nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

SECONDS = 45.0
"""The simulated time in which faults happen; after it everything heals."""


@dataclass(frozen=True)
class Faults:
    """Rates are probabilities per request, or events per second of simulated time."""

    replicas: int
    clients: int
    messages: int
    """The number of messages of each client, with one more if there are approvals."""
    skew: float
    """The largest difference of a host's clock from the true time, in seconds."""
    database_skew: float
    in_order: bool
    """True if the commits of a process keep their order, as with one writing thread."""
    refused: float
    """The database refuses the request."""
    lost_requests: float
    """The connection is lost before the request arrives."""
    rollbacks: float
    """The connection is lost before the commit, and the work is rolled back."""
    lost_replies: float
    """The connection is lost after the commit."""
    late_commits: float
    """The connection is lost, and the commit takes place later."""
    slow_requests: float
    outages: float
    """The database refuses every write for a while."""
    cut_offs: float
    """A host reaches the database for a while not at all, while the others do."""
    clock_jumps: float
    database_jumps: float
    pauses: float
    kills: float
    restarts: float
    """Shutdowns in which running turns are ended."""
    slow_model: float
    failing_model: float
    slow_tools: float
    lost_tool_requests: float
    lost_tool_replies: float
    failing_tools: float
    impatience: float
    """A client gives up its request, and repeats it."""
    double_clicks: float
    """A client sends a request to two replicas at once."""
    keyless: float
    """A client sends no key, and does not repeat the request."""
    stops: float
    """The user stops a running turn."""
    plain: int
    """The number of decisions without a chat for each client."""
    budgets: bool
    """True if a policy limits what a user may do in a day."""
    approvals: bool
    """True if a policy demands the approval of other people, and the model requests such calls."""
    approval_seconds: float
    """The time for which a call waits for them."""
    policy_changes: float
    """A host is killed, and its next process has other rules."""

    @classmethod
    def draw(cls, random: Random) -> Faults:
        """Return the faults of a seed."""

        def sometimes(rate: float, chance: float = 0.35) -> float:
            return random.choice((0.3, 1.0)) * rate if random.random() < chance else 0.0

        return cls(
            replicas=random.choice((2, 2, 3)),
            clients=random.choice((1, 2, 3)),
            messages=random.choice((1, 2, 2)),
            skew=random.choice((0.0, 0.3, 1.0, 10.0, 10.0, 4000.0)),
            database_skew=random.choice((0.0, -10.0, 10.0)),
            in_order=random.random() < 0.5,
            refused=sometimes(0.1),
            lost_requests=sometimes(0.1),
            rollbacks=sometimes(0.1),
            lost_replies=sometimes(0.15),
            late_commits=sometimes(0.15),
            slow_requests=sometimes(0.15),
            outages=sometimes(0.05),
            cut_offs=sometimes(0.1, 0.5),
            clock_jumps=sometimes(0.05),
            database_jumps=sometimes(0.03),
            pauses=sometimes(0.1, 0.5),
            kills=sometimes(0.1, 0.5),
            restarts=sometimes(0.05),
            slow_model=sometimes(0.4, 0.6),
            failing_model=sometimes(0.1),
            slow_tools=sometimes(0.4, 0.6),
            lost_tool_requests=sometimes(0.2),
            lost_tool_replies=sometimes(0.2),
            failing_tools=sometimes(0.2),
            impatience=sometimes(0.3),
            double_clicks=sometimes(0.5),
            keyless=sometimes(0.3),
            stops=sometimes(0.2, 0.2),
            plain=random.choice((0, 0, 1, 5)),
            budgets=random.random() < 0.5,
            approvals=random.random() < 0.5,
            approval_seconds=random.choice((3.0, 8.0, 20.0, 86_400.0)),
            policy_changes=sometimes(0.2, 0.5),
        )
