"""The embedded model: sentence templates, behind the same interface as a language model.

`templates` compiles `sentences.yaml` and `lists.yaml`; `reading` finds the parts of a message and the template of each;
`dialogue` reads what the conversation left open, and composes the replies; `references` finds the tasks that words name;
`planning` plans the calls.
"""

from graph_agent.llm.embedded.planning import EmbeddedAdapter

__all__ = ["EmbeddedAdapter"]
