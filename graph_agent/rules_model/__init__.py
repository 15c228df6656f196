"""The embedded model: a small English grammar for task lists, behind the same interface as a language model.

A request goes through five steps, one module each: `text` tidies the message, `splitting` separates its requests, `grammar`
matches each one against a table, `planning` finds the tasks that are meant and plans the calls, `replies` composes the reply.
`dialogue` reads from the conversation so far what a short answer such as "yes" or "the second one" refers to.
"""

from graph_agent.rules_model.adapter import RuleBasedAdapter

__all__ = ["RuleBasedAdapter"]
