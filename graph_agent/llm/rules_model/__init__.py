"""The embedded model: cues of English task talk, behind the same interface as a language model.

A request goes through five steps, one module each: `wording` gives the message a normal form, `splitting` separates its
requests, `reading` compares each one with the cues in `cues/` (built by `adding`, `changing`, `questions`, `reports`),
`planning` finds the tasks that are meant (by `matching`) and plans the calls, `replies` composes the reply. `dialogue` reads
from the conversation so far what a short answer like "yes" or "the second one" refers to.
"""

from graph_agent.llm.rules_model.adapter import RuleBasedAdapter

__all__ = ["RuleBasedAdapter"]
