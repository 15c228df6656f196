"""The origin of a text that a model, or a client of the gateway, reads."""

from __future__ import annotations

from enum import StrEnum


class Origin(StrEnum):
    """The author of a text. Everything that is added to a prompt or to an answer of the gateway has one."""

    USER = "user"
    """The user, in a message."""
    OPERATOR = "operator"
    """The operator, in the constitution, a rule or a reviewed definition."""
    CODE = "code"
    """The runtime. It quotes no other author: not the value of a fact, nor the words of a server."""
    MODEL = "model"
    """The model, or code in an earlier reply. If its conversation was tainted, so is what it has written there."""
    TRUSTED = "trusted"
    """A tool with `(trusted results)`."""
    FOREIGN = "foreign"
    """Anybody else, as in the result of a tool: it taints what follows."""
