"""The rule-based model: a message is read into intents, the intents and the results so far decide the next step."""

from graph_agent.rules_model.adapter import RuleBasedAdapter

__all__ = ["RuleBasedAdapter"]
