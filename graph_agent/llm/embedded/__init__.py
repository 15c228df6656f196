"""The embedded model: sentence templates, behind the same interface as a language model.

`templates` compiles `sentences.yaml` and `lists.yaml`; `reading` finds the parts of a message and the template of each;
`dialogue` reads what the conversation left open, and composes the replies; `references` finds the tasks that words name;
`planning` plans the calls. `fixed_requests` makes the calls of a file of requests instead, for tools other than the task list.
"""

from graph_agent.llm.embedded.planning import EmbeddedAdapter

__all__ = ["EmbeddedAdapter"]
