"""The approval requests of a conversation that have ended since its user last wrote, printed once."""

from __future__ import annotations

from itertools import takewhile

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.conversations.reading import StoredMessage
from graph_agent.chat.questions import Person
from graph_agent.cli.aligned import reply_of
from graph_agent.cli.running import Run, print_stderr
from graph_agent.cli.show import print_answer
from graph_agent.models.record import DecisionRecord
from graph_agent.question.inbox import Which
from graph_agent.reply.text import visible

_NEWEST = 200
"""The number of the user's newest requests that are looked at."""


class EndedRequests:
    """Prints the replies of the decisions that close the requests of a user."""

    def __init__(self, runtime: Runtime, run: Run, user: str, printed: tuple[str, ...] = (), *, as_json: bool = False) -> None:
        """`printed` are the decisions whose replies were printed before. With `as_json` stdout is for something else."""
        self._runtime, self._run, self._user = runtime, run, user
        self.printed = printed
        self._as_json = as_json

    def print_new(self, conversation_id: str, answered: str | None = None) -> bool:
        """Print those of a conversation that ended since the user's last message in it; return True if there are any.

        `answered` is the decision about a message that was sent just now: it and what came later do not count.
        """
        own = self._run(self._runtime.chat.questions.inbox(Person(self._user), Which.OWN, _NEWEST)).questions
        closing = {one.closing_decision for one in own if one.conversation_id == conversation_id}
        if not closing - {None}:
            return False
        messages = self._run(self._runtime.chat.conversation(self._user, conversation_id)).messages
        new = [one for one in _closed_last(messages, closing, answered) if one not in self.printed]
        for decision_id in new:
            record = self._run(self._runtime.audit.load(decision_id))
            if isinstance(record, DecisionRecord):
                self._print(record)
        self.printed = (*self.printed, *new)
        return bool(new)

    def _print(self, record: DecisionRecord) -> None:
        if self._as_json:
            print_stderr(visible(reply_of(record.decision)))
        else:
            print_answer(record.decision)


def _closed_last(messages: list[StoredMessage], closing: set[str | None], answered: str | None) -> list[str]:
    """Return the closing decisions at the end of a conversation, or before the message that was answered, in their order."""
    newest_first = [one.decision_id for one in reversed(messages)]
    if answered is not None:
        newest_first = newest_first[newest_first.index(answered) :] if answered in newest_first else []
        newest_first = [one for one in newest_first if one != answered]
    return list(dict.fromkeys(takewhile(lambda one: one in closing, newest_first)))[::-1]
